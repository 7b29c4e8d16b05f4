import type { RunData } from "../api/types";
import { epochSections } from "../charts/axes";
import { type Axis, type Line, type LineModel, type Mark, seriesColour } from "../charts/model";
import { count, duration, exact } from "../format";
import { type Along, type ChartLine, type CurveChart, positionsOf, type RunCurves } from "./curves";
import { smoothed } from "./smoothing";

/** How curves are shown. */
export interface CurveView {
  along: Along;
  /** The weight of the past in a moving average: 0 to less than 1. */
  smoothing: number;
}

/** The chart of a number: of one run in training and validation, or of several runs. */
export function curveModel(
  { title, lines }: CurveChart,
  runs: readonly RunCurves[],
  { along, smoothing }: CurveView,
  epochs: RunData["epochs"] = [],
): LineModel {
  const drawn = lines.filter(({ run }) => along !== "epoch" || runs[run]?.hasEpochs);
  const position = Float64Array.from(
    new Set(drawn.flatMap(({ curve }) => [...positionsOf(curve, along)])),
  ).sort();
  // Of several runs, first all numbers in training, and then all in validation.
  if (runs.length > 1)
    drawn.sort((a, b) => Number(a.role === "validation") - Number(b.role === "validation"));
  const place = new Map(Array.from(position, (at, i) => [at, i]));
  return {
    title: title.replaceAll("_", " "),
    unit: "",
    axis: curveAxis(position, along, timeUnit(runs), epochs),
    lines: drawn.map((line): Line => {
      const { curve } = line;
      const at = Array.from(positionsOf(curve, along), (one) => place.get(one) ?? 0);
      const spread = (values: ArrayLike<number>) => {
        const all = new Array<number | undefined>(position.length).fill(undefined);
        at.forEach((index, i) => {
          all[index] = values[i];
        });
        return all;
      };
      // Epochs are few, and their numbers are means already.
      const smooth = smoothing > 0 && curve.kind !== "epoch_metric" && line.role !== "reported";
      return {
        ...styleOf(line, runs),
        values: spread(smooth ? smoothed(curve.values, smoothing) : curve.values),
        ...(smooth && { raw: spread(curve.values) }),
      };
    }),
    marks: drawn.flatMap((line) => firstNonfinite(line, place, along, styleOf(line, runs).name)),
  };
}

/** A mark where a curve is first not finite: the line ends there. */
function firstNonfinite(
  { curve }: ChartLine,
  place: ReadonlyMap<number, number>,
  along: Along,
  name: string,
): Mark[] {
  const at = curve.values.findIndex((value) => !Number.isFinite(value));
  if (at < 0) return [];
  const index = place.get(positionsOf(curve, along)[at] ?? 0) ?? 0;
  return [{ index, text: `${name} is ${exact(curve.values[at] ?? Number.NaN)}` }];
}

/** The name and colour of a line: by role of one run's, by run of several runs'. */
function styleOf({ run, curve, role }: ChartLine, runs: readonly RunCurves[]) {
  const name = curve.path.slice(curve.path.lastIndexOf("/") + 1);
  if (runs.length > 1) {
    const own = runs[run]?.name ?? "";
    const validation = role === "validation";
    return {
      name: validation ? `${own}: ${name}` : own,
      colour: seriesColour(run),
      dashed: validation,
    };
  }
  const order = { train: 0, validation: 1, reported: 2 };
  return {
    name: role === "reported" ? `${name} as reported` : name,
    colour: seriesColour(order[role]),
  };
}

const UNITS: [seconds: number, name: string][] = [
  [86400, "days"],
  [3600, "hours"],
  [60, "minutes"],
  [1, "seconds"],
];

/** The unit of time that fits all curves, so that charts have the same axis. */
function timeUnit(runs: readonly RunCurves[]): [seconds: number, name: string] {
  const ends = runs.flatMap(({ curves }) => curves.map(({ time }) => time.at(-1) ?? 0));
  const longest = ends.reduce((most, end) => Math.max(most, end), 0);
  return UNITS.find(([seconds]) => longest >= 2 * seconds) ?? [1, "seconds"];
}

/** An axis of steps, of epochs, or of the time since the start in a unit. */
function curveAxis(
  given: Float64Array,
  along: Along,
  [unit, name]: [seconds: number, name: string],
  epochs: RunData["epochs"],
): Axis {
  const position = along === "time" ? given.map((seconds) => seconds / unit) : given;
  const texts: Record<Along, (at: number) => string> = {
    step: (at) => `step ${count(at)}`,
    epoch: (at) => `epoch ${Number(at.toFixed(2))}`,
    time: (at) => `after ${duration(at)}`,
  };
  return {
    label: along === "time" ? `time since the start, ${name}` : along,
    position,
    name: (i) => texts[along](given[i] ?? 0),
    head: [along === "time" ? "seconds" : along],
    cells: (i) => [given[i] ?? 0],
    sections: along === "step" ? epochSections({ epochs }) : [],
    whole: along === "step",
  };
}
