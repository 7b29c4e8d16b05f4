import type { Line, LineModel } from "./model";

type Values = ArrayLike<number | undefined>;

/** What a read-out shows of a line at a column, or at its own end: its value, and the average. */
export function lineReadout({ values, raw }: Pick<Line, "values" | "raw">, cursor: number | null) {
  const at = (own: Values) =>
    cursor === null ? lastValue(own) : valueAt(own, Math.min(cursor, own.length - 1));
  return { value: at(raw ?? values), average: raw && at(values) };
}

/** Where the last values are: without a position if lines end at different ones. */
export function lastText({ lines }: Pick<LineModel, "lines">, where: string): string {
  const ends = new Set(lines.map(({ values }) => lastIndex(values)).filter((end) => end >= 0));
  return ends.size > 1 ? "last of each" : `last: ${where}`;
}

/** The value at a column; between two points of a line, the value of the first. */
function valueAt(values: Values, index: number): number | undefined {
  let after = index;
  while (after < values.length && values[after] === undefined) after++;
  return after < values.length ? lastValue(values, index) : undefined;
}

function lastValue(values: Values, upTo?: number): number | undefined {
  return values[lastIndex(values, upTo)];
}

function lastIndex(values: Values, upTo = values.length - 1): number {
  let index = upTo;
  while (index >= 0 && values[index] === undefined) index--;
  return index;
}
