import { type CellGrid, type CellView, gapOf, visibleRows } from "./grid";

/** Cells as rectangles, relative to the top left corner of the view: for files. */

export interface CellBox {
  x: number;
  y: number;
  width: number;
  height: number;
  fill: string;
}

const NONFINITE = "--nonfinite";

/** The cells that have a colour. Neighbours of the same colour are one rectangle. */
export function cellBoxes(grid: CellGrid, view: CellView): CellBox[] {
  const boxes: CellBox[] = [];
  const { scale, rowHeight, scrolled } = view;
  const [begin, end] = visibleRows(grid.rows, view);
  const height = rowHeight - gapOf(view);
  for (let row = begin; row < end; row++) {
    const cells = grid.row(row);
    if (cells === null) continue;
    const { columns, values, nonfinite } = cells;
    let last: CellBox | undefined;
    for (let column = 0; column < columns.first.length; column++) {
      const x = halfPixel(Math.max(0, scale.x(columns.first[column] ?? 0)));
      const right = halfPixel(Math.min(scale.width, scale.x(columns.ends[column] ?? 0)));
      const fill = nonfinite?.(column) ? NONFINITE : grid.colours.css(values[column] ?? Number.NaN);
      if (right <= x || fill === null) continue;
      if (last?.fill === fill && last.x + last.width === x) last.width = right - last.x;
      else {
        last = { x, y: row * rowHeight - scrolled, width: right - x, height, fill };
        boxes.push(last);
      }
    }
  }
  return boxes;
}

/** The gaps below the visible rows. */
export function rowGaps(grid: CellGrid, view: CellView): Omit<CellBox, "fill">[] {
  const gap = gapOf(view);
  if (gap === 0) return [];
  const [begin, end] = visibleRows(grid.rows, view);
  return Array.from({ length: Math.max(0, end - begin) }, (_, i) => ({
    x: 0,
    y: (begin + i + 1) * view.rowHeight - view.scrolled - gap,
    width: view.scale.width,
    height: gap,
  }));
}

/** Neighbours end and begin at the same place, so that no background shows between them. */
function halfPixel(x: number): number {
  return Math.round(2 * x) / 2;
}
