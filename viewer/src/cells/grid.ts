import type { TimeScale } from "../time/range";
import type { ColourScale } from "./colour-scale";
import { spanAt } from "./spans";

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

/** Where columns begin on the axis, ascending, and where all of it ends. */
export interface CellColumns {
  first: ArrayLike<number>;
  end: number;
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
function columnAt({ first, end }: CellColumns, position: number): number {
  if (position >= end) return -1;
  let column = first.length - 1;
  while (column >= 0 && (first[column] ?? 0) > position) column--;
  return column;
}

/** The cell at a point of the view, also one without a value; null if there is none. */
export function cellAt(
  grid: CellGrid,
  view: CellView,
  at: { x: number; y: number },
): { row: number; column: number } | null {
  const row = rowAt(grid.rows, view, at.y);
  const cells = row < 0 ? null : grid.row(row);
  if (!cells) return null;
  const position = view.scale.step(at.x);
  const column = spanAt(cells, position)?.column ?? columnAt(cells.columns, position);
  return column < 0 ? null : { row, column };
}
