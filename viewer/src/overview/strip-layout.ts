import { tickTexts } from "../charts/numbers";
import { extent, type Interval, padded, placed, type ScaleKind, ticks } from "../charts/scale";
import { short } from "../format";
import type { TimeScale } from "../time/range";
import type { NumberGroup, NumberSeries } from "./numbers";

export interface StripLayout {
  kind: ScaleKind;
  interval: Interval;
  ticks: number[];
  y: (value: number) => number;
}

/** Values whose extremes differ by more than this factor have a logarithmic axis. */
const WIDE = 30;
/** The least distance of two ticks, so that their texts do not touch. */
const TICK_ROOM = 14;

/** The vertical axis for the visible values of a group. */
export function stripLayout(group: NumberGroup, scale: TimeScale, height: number): StripLayout {
  const values = group.series.flatMap((series) => [
    ...shownValues(series, series.values, scale),
    ...(series.ranks ? shownValues(series, series.ranks.low, scale) : []),
    ...(series.ranks ? shownValues(series, series.ranks.high, scale) : []),
  ]);
  const seen = extent(values);
  const kind: ScaleKind =
    seen !== null && seen.low > 0 && seen.high / seen.low > WIDE ? "log" : "linear";
  const interval = padded(seen, kind);
  const y = (value: number) => height - 1 - placed(value, interval, kind) * (height - 2);
  const marks: number[] = [];
  for (const tick of ticks(interval, kind, 6)) {
    const at = y(tick);
    const before = marks.at(-1);
    const free = before === undefined || y(before) - at >= TICK_ROOM;
    if (free && at > 6 && at < height - 4) marks.push(tick);
  }
  return { kind, interval, ticks: marks, y };
}

/** The texts of the ticks. */
export function tickLabels({ kind, ticks: shown }: StripLayout): string[] {
  return kind === "log" ? shown.map(short) : tickTexts(shown);
}

/** The middle of the steps of a column, where its point is drawn. */
export function middle({ first, last }: NumberSeries, column: number): number {
  const step = first[column] ?? 0;
  return (step + (last[column] ?? step)) / 2;
}

/** The column nearest to a step; -1 if there is none. */
export function nearestColumn(series: NumberSeries, step: number): number {
  let best = -1;
  let distance = Number.POSITIVE_INFINITY;
  series.first.forEach((_, column) => {
    const away = Math.abs(middle(series, column) - step);
    if (away < distance) {
      distance = away;
      best = column;
    }
  });
  return best;
}

function shownValues(series: NumberSeries, values: Float64Array, { range }: TimeScale): number[] {
  return Array.from(values).filter((_, column) => {
    const step = middle(series, column);
    return step >= range.from && step <= range.to;
  });
}
