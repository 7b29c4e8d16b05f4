import type { CellRow } from "./grid";

/** Where a value is shown on the axis. */
export interface Span {
  column: number;
  begin: number;
  end: number;
}

/**
 * The stretches over which the values of a row are shown. All charts over steps follow this rule:
 *
 * - A value is shown until the row's next value, however far away that is.
 * - The last value is shown until the next column, and for as long as the longest stretch before
 *   it: rows that are measured seldom do not seem to have ended.
 * - There is nothing before the first value, nor after the end of the run.
 */
export function* heldSpans(row: CellRow): Generator<Span> {
  const { first, end } = row.columns;
  const at = (column: number) => Math.min(first[column] ?? end, end);
  let open = -1;
  let longest = 0;
  for (let column = 0; column < first.length; column++) {
    if (!isKnown(row, column)) continue;
    if (open >= 0) {
      longest = Math.max(longest, at(column) - at(open));
      yield { column: open, begin: at(open), end: at(column) };
    }
    open = column;
  }
  if (open < 0) return;
  const until = Math.max(at(open + 1), at(open) + longest);
  yield { column: open, begin: at(open), end: Math.min(until, end) };
}

/** The stretch that contains a position; null if nothing is shown there. */
export function spanAt(row: CellRow, position: number): Span | null {
  for (const span of heldSpans(row)) if (span.begin <= position && position < span.end) return span;
  return null;
}

function isKnown({ values, nonfinite }: CellRow, column: number): boolean {
  return !Number.isNaN(values[column]) || Boolean(nonfinite?.(column));
}
