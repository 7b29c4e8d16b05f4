import { printable } from "../format";
import type { Comparison } from "./comparison";

/** Where the cells of the heatmap of differences lie, in CSS pixels. */

export const ROW = 16;
export const AXIS = 34;
/** So many pixels of rows at most; more are scrolled to. */
export const MOST = 40 * ROW;
const LABELS = { least: 74, most: 240 };
const RIGHT = 12;

export interface GridLayout {
  left: number;
  right: number;
  /** Where each column begins, and where the last one ends. */
  borders: Float64Array;
}

export function gridLayout({ about, position }: Comparison, width: number): GridLayout {
  const longest = about.paths.reduce((most, path) => Math.max(most, path.length), 0);
  const labels = Math.min(
    LABELS.most,
    Math.max(LABELS.least, longest * CHARACTER.bold + 12),
    width / 3,
  );
  const right = width - RIGHT;
  const columns = position.length;
  const start = position[0] ?? 0;
  const end = endOf(position);
  const by = (at: number) => labels + ((at - start) / (end - start || 1)) * (right - labels);
  const borders = Float64Array.from({ length: columns + 1 }, (_, i) =>
    i < columns ? by(position[i] ?? start) : right,
  );
  return { left: labels, right, borders };
}

/** The position at which the last column ends: it is as wide as they usually are. */
export function endOf(position: Float64Array): number {
  const last = position[position.length - 1] ?? 1;
  let width = Number.POSITIVE_INFINITY;
  for (let i = 1; i < position.length; i++)
    width = Math.min(width, (position[i] ?? 0) - (position[i - 1] ?? 0));
  return last + (Number.isFinite(width) ? width : 1);
}

/** The cell at a point of the rows, `scrolled` pixels of which are above; null beside them. */
export function cellAt(
  layout: GridLayout,
  rows: number,
  at: { x: number; y: number },
  scrolled: number,
): { row: number; column: number | null } | null {
  const row = Math.floor((at.y + scrolled) / ROW);
  if (row < 0 || row >= rows || at.x > layout.right) return null;
  if (at.x < layout.left) return { row, column: null };
  let column = layout.borders.length - 2;
  while (column > 0 && at.x < (layout.borders[column] ?? 0)) column--;
  return { row, column };
}

/** How wide a character is on average: in rows' names, in those of layers, in a list. */
export const CHARACTER = { plain: 6.3, bold: 7, mono: 7.3 };

/** A path that fits into so many pixels: its end tells more than its beginning. */
export function fittingPath(path: string, pixels: number, character = CHARACTER.plain): string {
  const shown = printable(path);
  const most = Math.max(4, Math.floor(pixels / character));
  return shown.length <= most ? shown : `…${shown.slice(shown.length - most + 1)}`;
}
