import { decodeDoubles } from "../api/doubles";
import type { ComparisonData, MatchedBy, StatisticData } from "../api/types";

/** A decoded comparison of runs. Its first row is the whole model. */
export interface Comparison {
  about: Omit<ComparisonData, "values" | "position" | "model" | "matched" | "nonfinite"> & {
    /** Null for the whole model. */
    matched: (MatchedBy | null)[];
  };
  position: Float64Array;
  /** The value of a run, by its index, at a row and a column. */
  value(run: number, row: number, column: number): number;
  /** Whether that value was measured, and is NaN or infinite. */
  isBad(run: number, row: number, column: number): boolean;
}

/** How two values are compared: magnitudes by their ratio, others by their difference. */
export type Measure = "ratio" | "difference";

/** The path of the whole model. */
export const MODEL = "model";

export function decodeComparison(data: ComparisonData): Comparison {
  const { values, position, model, nonfinite, ...about } = data;
  const bad = new Set(nonfinite.map((cell) => cell.join()));
  const numbers = decodeDoubles(values);
  const totals = decodeDoubles(model);
  const columns = decodeDoubles(position);
  const rows = about.paths.length;
  return {
    about: {
      ...about,
      paths: [MODEL, ...about.paths],
      merged: [true, ...about.merged],
      matched: [null, ...about.matched],
      counterparts: about.counterparts.map((paths) => [MODEL, ...paths]),
    },
    position: columns,
    isBad: (run, row, column) => bad.has([run, row, column].join()),
    value: (run, row, column) =>
      (row === 0
        ? totals[run * columns.length + column]
        : numbers[(run * rows + row - 1) * columns.length + column]) ?? Number.NaN,
  };
}

export function measureOf(statistic: StatisticData | undefined): Measure {
  return statistic === undefined || statistic.scale === "log" ? "ratio" : "difference";
}

/** The distance of a value from that of the first run: log2 of the ratio, or the difference. */
export function apart(first: number, other: number, measure: Measure): number {
  if (measure === "difference") return other - first;
  // Two zeros are equal; the distance of a zero from any other magnitude is infinite.
  return first === 0 && other === 0 ? 0 : Math.log2(other / first);
}

/** All distances of a run from the first, rows by columns. */
export function distances(comparison: Comparison, run: number, measure: Measure): Float64Array {
  const columns = comparison.position.length;
  const found = new Float64Array(comparison.about.paths.length * columns);
  for (let cell = 0; cell < found.length; cell++) {
    const row = Math.floor(cell / columns);
    const column = cell % columns;
    const value = (which: number) => comparison.value(which, row, column);
    found[cell] = apart(value(0), value(run), measure);
  }
  return found;
}

/** The distance with the strongest colour: a round number that most distances do not exceed. */
export function colourLimit(far: Float64Array, measure: Measure): number {
  const sizes = far.filter(Number.isFinite).map(Math.abs).sort();
  const most = sizes[Math.floor(0.98 * (sizes.length - 1))] ?? 0;
  if (measure === "ratio") return [0.5, 1, 2, 4, 8, 16].find((limit) => most <= limit) ?? 32;
  if (most === 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 2, 5, 10].find((factor) => most <= factor * power) ?? 10) * power;
}

export interface Ranked {
  row: number;
  path: string;
  /** The mean of the absolute distances. */
  score: number;
  /** The distance in the last column that both runs have. */
  last: number;
  lastColumn: number;
}

/** The number of doublings that an infinite ratio counts as, so that means are finite. */
const INFINITE = 32;

/** The layers, the most different first, without the model and without parts of listed layers. */
export function mostDifferent(comparison: Comparison, far: Float64Array): Ranked[] {
  const { paths, merged } = comparison.about;
  const columns = comparison.position.length;
  const layers = new Set(paths.filter((_, row) => row > 0 && merged[row]));
  const ranked = paths.flatMap((path, row): Ranked[] => {
    if (row === 0) return [];
    if (!merged[row] && layers.has(path.slice(0, Math.max(0, path.lastIndexOf("/"))))) return [];
    const all = far.subarray(row * columns, (row + 1) * columns);
    const own = all.filter((d) => !Number.isNaN(d));
    if (own.length === 0) return [];
    const lastColumn = all.findLastIndex((d) => !Number.isNaN(d));
    const total = own.reduce((sum, d) => sum + (Number.isFinite(d) ? Math.abs(d) : INFINITE), 0);
    return [
      { row, path, score: total / own.length, last: all[lastColumn] ?? Number.NaN, lastColumn },
    ];
  });
  return ranked.sort((a, b) => b.score - a.score);
}
