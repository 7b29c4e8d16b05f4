import type uPlot from "uplot";
import { colour } from "../theme";
import type { Range } from "../time/range";
import {
  rawLines,
  shownBands,
  shownLines,
  type View,
  visiblePositions,
  visibleValues,
} from "./line-layout";
import { overScene, type Plot, underScene, unitText } from "./line-scene";
import { FAINT, type Line, type LineModel } from "./model";
import { tickTexts } from "./numbers";
import { stepTicks, ticks } from "./scale";
import type { Scene } from "./scene";
import { drawScene } from "./scene-canvas";

/** What a plot shows. uPlot reads it whenever it draws, so that data can change. */
export interface Shown {
  model: LineModel;
  view: View;
}

export interface Handlers {
  onCursor(index: number | null): void;
  onZoom(range: Range | null): void;
}

const POINT = 4;

/** The options of a plot of `shown()`. Other lines, bands or scales need a new plot. */
export function plotOptions(
  shown: () => Shown,
  size: { width: number; height: number },
  sync: string,
  handlers: Handlers,
): uPlot.Options {
  const { model, view } = shown();
  const font = () => `11px ${colour("--sans")}`;
  const axis = { stroke: () => colour("--muted"), font: font(), labelFont: font() };
  const bands = shownBands(model, view);
  const raws = rawLines(model, view);
  return {
    ...size,
    // The names of epochs are above the plot, where no line crosses them.
    padding: [16, 12, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: false, range: () => pair(visiblePositions(shown().model, shown().view)) },
      y: {
        distr: view.scale === "log" ? 3 : 1,
        range: () => pair(visibleValues(shown().model, shown().view)),
      },
    },
    axes: [
      {
        ...axis,
        label: model.axis.label,
        size: 22,
        gap: 4,
        labelSize: 16,
        labelGap: 0,
        grid: { show: false },
        ticks: { stroke: () => colour("--line"), size: 4, width: 1 },
        splits: (u, _, low, high) => positionTicks(shown().model, { low, high }, u.width / 90),
        values: (_, splits) => tickTexts(splits),
      },
      {
        ...axis,
        label: unitText(model.unit, view),
        size: 56,
        gap: 4,
        labelSize: 18,
        labelGap: 0,
        grid: { stroke: () => colour("--grid"), width: 1 },
        ticks: { show: false },
        splits: (u, _, low, high) => ticks({ low, high }, view.scale, u.height / 40),
        filter: (_, splits) => splits,
        values: (_, splits) => tickTexts(splits),
      },
    ],
    series: [
      {},
      ...Array.from({ length: 2 * bands.length }, () => ({
        stroke: "transparent",
        width: 0,
        points: { show: false },
      })),
      ...raws.map(({ colour: tone }) => ({
        stroke: () => withOpacity(colour(`--${tone}`), FAINT),
        width: 1,
        points: { show: false },
      })),
      ...shownLines(model, view).map(lineSeries),
    ],
    bands: bands.map(({ colour: tone, opacity }, i) => ({
      series: [2 * i + 1, 2 * i + 2] as [number, number],
      fill: () => withOpacity(colour(`--${tone}`), opacity),
    })),
    cursor: {
      y: false,
      drag: { x: true, y: false, setScale: false },
      points: { size: (_, series) => (series > 2 * bands.length + raws.length ? 7 : 0) },
      bind: {
        dblclick: () => () => {
          handlers.onZoom(null);
          return null;
        },
      },
      sync: {
        key: sync,
        scales: ["x", null],
        setSeries: false,
        // Only the pointer is shared: a selection reaches other charts as their new range.
        filters: { pub: (type) => type === "mousemove" || type === "mouseleave" },
      },
    },
    hooks: {
      drawAxes: [(u) => drawAround(u, (plot) => underScene(shown().model, plot))],
      draw: [(u) => drawAround(u, (plot) => overScene(shown().model, shown().view, plot))],
      setCursor: [(u) => handlers.onCursor(u.cursor.idx ?? null)],
      setSelect: [(u) => zoom(u, shown().model, handlers)],
    },
  };
}

/** The numbers for uPlot: null is a gap, undefined is no point. */
export function plotData({ model, view }: Shown): uPlot.AlignedData {
  const drawable = (value: number | undefined) => {
    if (value === undefined) return undefined;
    return Number.isFinite(value) && (view.scale !== "log" || value > 0) ? value : null;
  };
  const column = (values: ArrayLike<number | undefined>) =>
    Array.from({ length: model.axis.position.length }, (_, i) => drawable(values[i]));
  return [
    model.axis.position,
    ...shownBands(model, view).flatMap(({ low, high }) => [column(high), column(low)]),
    ...rawLines(model, view).map(({ raw }) => column(raw)),
    ...shownLines(model, view).map(({ values }) => column(values)),
  ];
}

/** A key of everything that needs a new plot when it changes. */
export function structureOf({ model, view }: Shown): string {
  return JSON.stringify([
    model.unit,
    view.scale,
    model.lines.map(({ name, colour: tone, dashed, raw }) => [
      name,
      tone,
      dashed,
      raw !== undefined,
    ]),
    (model.bands ?? []).map(({ name, colour: tone, opacity }) => [name, tone, opacity]),
    [...view.hidden],
  ]);
}

/** Draws shapes that uPlot does not have. uPlot measures in device pixels, a scene in CSS pixels. */
function drawAround(u: uPlot, scene: (plot: Plot) => Scene): void {
  const { left, top, width, height } = u.bbox;
  const ratio = devicePixelRatio;
  u.ctx.save();
  u.ctx.scale(ratio, ratio);
  drawScene(
    u.ctx,
    scene({
      x: left / ratio,
      y: top / ratio,
      width: width / ratio,
      height: height / ratio,
      px: (position) => u.valToPos(position, "x", true) / ratio,
      py: (value) => u.valToPos(value, "y", true) / ratio,
    }),
  );
  u.ctx.restore();
}

function lineSeries({ colour: tone, dashed = false }: Line): uPlot.Series {
  const stroke = () => colour(`--${tone}`);
  return {
    stroke,
    width: 1.5,
    ...(dashed ? { dash: [5, 3] } : {}),
    points: { show: true, size: POINT, width: 0, stroke, fill: stroke, filter: pointsToShow },
  };
}

/** The points to draw: all if there are few, else those between two gaps. */
function pointsToShow(u: uPlot, series: number): number[] {
  const values = u.data[series] ?? [];
  const all = u.data[0].length * POINT * 3 < u.width;
  const found: number[] = [];
  for (let i = 0; i < values.length; i++) {
    if (values[i] == null) continue;
    if (all || (isGap(values, i - 1) && isGap(values, i + 1))) found.push(i);
  }
  return found;
}

function isGap(values: ArrayLike<number | null | undefined>, index: number): boolean {
  return index < 0 || index >= values.length || values[index] === null;
}

function zoom(u: uPlot, model: LineModel, { onZoom }: Handlers): void {
  const { left, width } = u.select;
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  if (width < 4) return;
  const [from, to] = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
  onZoom(model.axis.whole ? { from: Math.floor(from), to: Math.ceil(to) } : { from, to });
}

function positionTicks(model: LineModel, interval: { low: number; high: number }, count: number) {
  return model.axis.whole ? stepTicks(interval, count) : ticks(interval, "linear", count);
}

function pair({ low, high }: { low: number; high: number }): [number, number] {
  return [low, high];
}

function withOpacity(hex: string, opacity: number): string {
  return `${hex}${Math.round(opacity * 255)
    .toString(16)
    .padStart(2, "0")}`;
}
