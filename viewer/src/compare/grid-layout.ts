import type { ColourScale } from "../cells/colour-scale";
import { type CellColumns, type CellGrid, type CellView, cellAt, rowAt } from "../cells/grid";
import { ending, printable } from "../format";
import { type TimeScale, timeScale } from "../time/range";
import type { Comparison } from "./comparison";

/** The layout of the heatmap of differences, in CSS pixels. */

export const ROW = 16;
/** The greatest height of the rows; more rows are reached by scrolling. */
export const MOST = 40 * ROW;
const LABELS = { least: 74, most: 240 };
const RIGHT = 12;

export interface GridLayout {
  /** Where the cells begin, right of the labels. */
  left: number;
  scale: TimeScale;
}

export function gridLayout({ about, position }: Comparison, width: number): GridLayout {
  const longest = about.paths.reduce((most, path) => Math.max(most, path.length), 0);
  const wanted = Math.max(LABELS.least, longest * CHARACTER.bold + 12);
  const left = Math.min(LABELS.most, wanted, width / 3);
  const range = { from: position[0] ?? 0, to: Math.max(...about.ends) };
  return { left, scale: timeScale(range, width - RIGHT - left) };
}

/** The distances of a run from the first as rows of cells, until the first of both ends. */
export function comparisonGrid(
  { about, position }: Comparison,
  run: number,
  distances: Float64Array,
  colours: ColourScale,
): CellGrid {
  const width = position.length;
  const columns: CellColumns = {
    first: position,
    end: Math.min(about.ends[0] ?? 0, about.ends[run] ?? 0),
  };
  return {
    rows: about.paths.length,
    row: (index) => ({
      columns,
      values: distances.subarray(index * width, (index + 1) * width),
    }),
    colours,
  };
}

/** The cell at a point; `column` is null on a label. Null outside of the rows. */
export function cellOrLabelAt(
  grid: CellGrid,
  layout: GridLayout,
  view: CellView,
  { x, y }: { x: number; y: number },
): { row: number; column: number | null } | null {
  const row = rowAt(grid.rows, view, y);
  if (y < 0 || y >= view.height || row < 0) return null;
  if (x < layout.left) return { row, column: null };
  return cellAt(grid, view, { x: x - layout.left, y });
}

/** The average width of a character: in labels of rows, in labels of layers, in a list. */
export const CHARACTER = { plain: 6.3, bold: 7, mono: 7.3 };

/** The end of a path that fits into a width. */
export function fittingPath(path: string, pixels: number, character = CHARACTER.plain): string {
  return ending(printable(path), pixels / character);
}
