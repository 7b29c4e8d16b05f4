import { useCallback, useState } from "preact/hooks";
import { count, exact, short } from "../format";
import { arrowMove } from "./arrows";
import { SceneCanvas } from "./canvas";
import { binCount, type Distribution, share } from "./distribution";
import { percent } from "./numbers";
import { ChartPanel } from "./panel";
import { ridgeAt, ridgeLayout } from "./ridge-layout";
import { ridgePicture, ridgeScene } from "./ridge-scene";
import type { Table } from "./table";

const HEIGHT = 380;
const TITLE = "Histograms over time";

interface RidgeProps {
  data: Distribution;
  unit: string;
  name: readonly string[];
}

/** Histograms over time, one behind the other. The pointer and the arrow keys select a bin. */
export function Ridge(props: RidgeProps) {
  if (props.data.steps.length > 0) return <Ridges {...props} />;
  return (
    <section class="chart" aria-label={TITLE}>
      <h3>{TITLE}</h3>
      <p class="chart-empty">There are no histograms in these steps.</p>
    </section>
  );
}

function Ridges({ data, unit, name }: RidgeProps) {
  const [at, setAt] = useState<{ step: number; bin: number } | null>(null);
  const bins = binCount(data);
  const last = data.steps.length - 1;
  // New data may have fewer steps or bins.
  const marked = at && at.step <= last && at.bin < bins ? at : null;
  const scene = useCallback(
    (width: number) => ridgeScene(data, ridgeLayout(data, width, HEIGHT), unit, marked),
    [data, unit, marked],
  );
  const move = (event: KeyboardEvent) => {
    const from = { row: marked?.step ?? last, column: marked?.bin ?? Math.floor(bins / 2) };
    const to = arrowMove(event.key, from, { rows: last + 1, columns: bins });
    if (to === null) return;
    event.preventDefault();
    setAt({ step: to.row, bin: to.column });
  };
  const where = marked ? binText(data, marked) : `${count(data.steps.length)} histograms`;
  return (
    <ChartPanel
      title={TITLE}
      note={hasTails(data) ? "the outermost bins contain the tails" : ""}
      chart={{
        name: [...name, TITLE],
        picture: () => ridgePicture(data, [...name, TITLE].join(" · "), unit),
        table: () => ridgeTable(data),
      }}
    >
      <div
        class="chart-readout"
        data-step={marked ? data.steps[marked.step] : ""}
        data-share={marked ? exact(share(data, marked.step, marked.bin)) : ""}
      >
        <span class="chart-where">{where}</span>
      </div>
      <div
        role="slider"
        tabIndex={0}
        aria-label={`Bin of ${TITLE}`}
        aria-valuemin={0}
        aria-valuemax={last}
        aria-valuenow={marked?.step ?? last}
        aria-valuetext={where}
        onKeyDown={move}
      >
        <SceneCanvas
          height={HEIGHT}
          scene={scene}
          onPoint={(point) =>
            setAt(point && ridgeAt(ridgeLayout(data, point.width, HEIGHT), point.x, point.y))
          }
        />
      </div>
    </ChartPanel>
  );
}

function hasTails(data: Distribution): boolean {
  return ridgeLayout(data, 1000, HEIGHT).tails.length > 0;
}

function binText(data: Distribution, { step, bin }: { step: number; bin: number }): string {
  const [low, high] = [data.edges[bin] ?? Number.NaN, data.edges[bin + 1] ?? Number.NaN];
  const part = percent(share(data, step, bin));
  return `step ${count(data.steps[step] ?? 0)}: ${part} of the elements from ${short(low)} to ${short(high)}`;
}

function ridgeTable(data: Distribution): Table {
  const bins = binCount(data);
  return {
    head: ["step", "bin_low", "bin_high", "share"],
    rows: data.steps.flatMap((step, i) =>
      Array.from({ length: bins }, (_, bin) => [
        step,
        data.edges[bin] ?? Number.NaN,
        data.edges[bin + 1] ?? Number.NaN,
        share(data, i, bin),
      ]),
    ),
  };
}
