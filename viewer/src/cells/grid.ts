import type { TimeScale } from "../time/range";
import type { ColourScale } from "./colour-scale";

/** Rows of coloured cells over an axis: the model of all heatmaps. */
export interface CellGrid {
  rows: number;
  /** Null for a row whose cells have not arrived yet. */
  row(index: number): CellRow | null;
  colours: ColourScale;
}

export interface CellRow {
  columns: CellColumns;
  /** One value for each column. NaN: there is no value. */
  values: Float64Array;
  /** Whether a cell contains NaN or Inf; undefined if no cell of the row does. */
  nonfinite?: (column: number) => boolean;
}

/** Where columns begin and end on the axis; ascending. */
export interface CellColumns {
  first: ArrayLike<number>;
  ends: ArrayLike<number>;
}

/** The visible part of a grid, in CSS pixels. */
export interface CellView {
  scale: TimeScale;
  rowHeight: number;
  /** Pixels of rows above the visible part. */
  scrolled: number;
  height: number;
}

/** Rows lower than this have no gap between them. */
const GAP_FROM = 6;

/** The pixels between two rows. */
export function gapOf({ rowHeight }: CellView): number {
  return rowHeight >= GAP_FROM ? 1 : 0;
}

/** The first visible row, and the end of the visible rows. */
export function visibleRows(rows: number, view: CellView): [begin: number, end: number] {
  const { scrolled, rowHeight, height } = view;
  const begin = Math.max(0, Math.min(Math.floor(scrolled / rowHeight), rows - 1));
  return [begin, Math.min(rows, Math.ceil((scrolled + height) / rowHeight))];
}

/** The row at a height in the view; -1 for none. */
export function rowAt(rows: number, { scrolled, rowHeight }: CellView, y: number): number {
  const row = Math.floor((y + scrolled) / rowHeight);
  return row >= 0 && row < rows ? row : -1;
}

/** The column at a position of the axis; -1 for none. */
export function columnAt({ first, ends }: CellColumns, position: number): number {
  let low = 0;
  let high = first.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((first[middle] ?? 0) <= position) low = middle + 1;
    else high = middle;
  }
  return low > 0 && position < (ends[low - 1] ?? 0) ? low - 1 : -1;
}

/** The cell at a point of the view; null if there is none. */
export function cellAt(
  grid: CellGrid,
  view: CellView,
  at: { x: number; y: number },
): { row: number; column: number } | null {
  const row = rowAt(grid.rows, view, at.y);
  const cells = row < 0 ? null : grid.row(row);
  const column = cells ? columnAt(cells.columns, view.scale.step(at.x)) : -1;
  return column < 0 ? null : { row, column };
}

/**
 * The ends of columns of steps. A column ends where the next begins, so that steps that are
 * measured at intervals do not look like stripes. A gap of more than three times the usual
 * interval stays visible.
 */
export function columnEnds(first: readonly number[], last: readonly number[]): number[] {
  const gaps = first.slice(1).map((step, i) => step - (first[i] ?? 0));
  const usual = [...gaps].sort((a, b) => a - b)[gaps.length >> 1] ?? 1;
  return first.map((step, i) => {
    const gap = gaps[i];
    const longest = 3 * Math.max(usual, gaps[i - 1] ?? 0);
    if (gap !== undefined && gap <= longest) return step + gap;
    return Math.max(step + usual, (last[i] ?? step) + 1);
  });
}
