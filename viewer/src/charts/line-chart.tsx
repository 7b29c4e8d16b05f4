import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useTheme } from "../theme";
import type { Range } from "../time/range";
import { useSize } from "../use";
import { canBeLogarithmic } from "./line-layout";
import { plotData, plotOptions, type Shown, structureOf } from "./line-options";
import { linePicture } from "./line-scene";
import type { LineModel } from "./model";
import { ChartPanel } from "./panel";
import { Readout } from "./readout";
import type { ScaleKind } from "./scale";
import { ScaleSwitch } from "./scale-switch";
import { lineTable } from "./table";

interface LineChartProps {
  model: LineModel;
  /** The parts of the names of exported files, such as the run and the path. */
  name: readonly string[];
  note?: string;
  height?: number;
  scale?: ScaleKind;
  /** If given, the user can choose between a linear and a logarithmic scale. */
  onScale?: (scale: ScaleKind) => void;
  /** The steps to show, and a function that is called with a new choice (null: all). */
  range?: Range | null;
  onZoom?: (range: Range | null) => void;
  /** Charts with the same key have a common cursor. */
  sync?: string;
}

const NOTHING_HIDDEN: ReadonlySet<string> = new Set();

/** Lines and bands over time, with exact values under the pointer. New data is added in place. */
export function LineChart(props: LineChartProps) {
  const { model, name, note = "", height = 200, onScale, range = null, onZoom, sync = "" } = props;
  const [hidden, setHidden] = useState(NOTHING_HIDDEN);
  const [cursor, setCursor] = useState<number | null>(null);
  const theme = useTheme();
  const [measure, { width }] = useSize<HTMLDivElement>();
  const host = useRef<HTMLDivElement | null>(null);
  const plot = useRef<uPlot | null>(null);

  const scale = props.scale === "log" && canBeLogarithmic(model) ? "log" : "linear";
  const shown: Shown = { model, view: { range, scale, hidden } };
  // uPlot reads these whenever it draws.
  const current = useRef({ shown, onZoom });
  current.current = { shown, onZoom };
  const structure = structureOf(shown);
  const last = model.axis.position.length - 1;
  const empty = last < 0;

  // A change of `structure` needs a new plot.
  useEffect(() => {
    if (host.current === null || width === 0) return;
    const options = plotOptions(() => current.current.shown, { width, height }, sync, {
      onCursor: setCursor,
      onZoom: (chosen) => current.current.onZoom?.(chosen),
    });
    const made = new uPlot(options, plotData(current.current.shown), host.current);
    plot.current = made;
    return () => {
      made.destroy();
      plot.current = null;
    };
  }, [structure, width > 0, height, sync]);

  useEffect(() => plot.current?.setData(plotData(current.current.shown)), [model, range]);
  useEffect(() => {
    if (width > 0) plot.current?.setSize({ width, height });
  }, [width, height]);
  // uPlot reads the colours again when the theme changes.
  useEffect(() => plot.current?.redraw(true, true), [theme]);

  const toggle = (line: string) => setHidden((old) => toggled(old, line));
  const move = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined || event.target !== host.current) return;
    event.preventDefault();
    const index = Math.max(0, Math.min(last, (cursor ?? last) + step));
    const left = plot.current?.valToPos(model.axis.position[index] ?? 0, "x") ?? 0;
    plot.current?.setCursor({ left, top: 0 }, true);
  };
  const heading = [...name, model.title].join(" · ");

  return (
    <ChartPanel
      title={model.title}
      note={note}
      chart={{
        name: [...name, model.title],
        picture: () => linePicture(model, shown.view, heading),
        table: () => lineTable(model),
      }}
      controls={
        onScale && (
          <ScaleSwitch title={model.title} scale={props.scale ?? "linear"} onScale={onScale} />
        )
      }
    >
      <Readout model={model} cursor={cursor} hidden={hidden} onToggle={toggle} />
      {empty && <p class="chart-empty">Nothing was measured in these steps.</p>}
      <div
        class="chart-plot"
        role="slider"
        tabIndex={0}
        aria-valuemin={0}
        aria-valuemax={last}
        aria-valuenow={cursor ?? last}
        aria-valuetext={last < 0 ? "" : model.axis.name(Math.min(cursor ?? last, last))}
        hidden={empty}
        aria-label={`Cursor of ${model.title}`}
        onKeyDown={move}
        ref={(element) => {
          host.current = element;
          measure(element);
        }}
      />
    </ChartPanel>
  );
}

function toggled(names: ReadonlySet<string>, name: string): ReadonlySet<string> {
  const next = new Set(names);
  if (!next.delete(name)) next.add(name);
  return next;
}
