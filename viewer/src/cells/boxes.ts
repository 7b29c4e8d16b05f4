import { type Box, corners, group, type Point, rect, type Shape } from "../charts/scene";
import { type CellGrid, type CellView, gapOf, visibleRows } from "./grid";
import { heldSpans } from "./spans";

/** The cells of a grid as shapes, for files; `paintCells` paints the same cells on a canvas. */

const HATCH_GAP = 6;

/** One path for each colour, which is far smaller than one rectangle for each cell. */
export function cellShapes(x: number, y: number, grid: CellGrid, view: CellView): Shape {
  const plot = { x: 0, y: 0, width: view.scale.width, height: view.height };
  const areas = [...cellBoxes(grid, view), ["--paper", rowGaps(grid, view)] as const];
  return group(
    x,
    y,
    [
      rect(plot, "--paper"),
      { type: "path", lines: hatchLines(plot), stroke: "--hatch" },
      ...areas.map(
        ([fill, boxes]): Shape => ({
          ...{ type: "path", lines: boxes.map(corners), closed: true, crisp: true, fill },
        }),
      ),
    ],
    plot,
  );
}

/** The visible cells by colour. Neighbours of the same colour are one box. */
export function cellBoxes(grid: CellGrid, view: CellView): Map<string, Box[]> {
  const found = new Map<string, Box[]>();
  const { scale, rowHeight, scrolled } = view;
  const [begin, end] = visibleRows(grid.rows, view);
  const height = rowHeight - gapOf(view);
  for (let row = begin; row < end; row++) {
    const cells = grid.row(row);
    if (cells === null) continue;
    const { values, nonfinite } = cells;
    for (const { column, begin: from, end: to } of heldSpans(cells)) {
      const x = halfPixel(Math.max(0, scale.x(from)));
      const right = halfPixel(Math.min(scale.width, scale.x(to)));
      const value = values[column] ?? Number.NaN;
      const fill = nonfinite?.(column) ? "--nonfinite" : grid.colours.css(value);
      if (right <= x || fill === null) continue;
      const boxes = found.get(fill) ?? [];
      found.set(fill, boxes);
      const y = row * rowHeight - scrolled;
      const last = boxes.at(-1);
      if (last && last.y === y && last.x + last.width === x) last.width = right - last.x;
      else boxes.push({ x, y, width: right - x, height });
    }
  }
  return found;
}

/** The gaps below the visible rows, which cover the hatch. */
function rowGaps(grid: CellGrid, view: CellView): Box[] {
  const gap = gapOf(view);
  const [begin, end] = visibleRows(grid.rows, view);
  return Array.from({ length: gap > 0 ? Math.max(0, end - begin) : 0 }, (_, i) => ({
    x: 0,
    y: (begin + i + 1) * view.rowHeight - view.scrolled - gap,
    width: view.scale.width,
    height: gap,
  }));
}

/** Slanted lines that fill a box: nothing was measured where no cell covers them. */
function hatchLines({ width, height }: Box): Point[][] {
  return Array.from({ length: Math.ceil((width + height) / HATCH_GAP) }, (_, i) => [
    [i * HATCH_GAP - height, height],
    [i * HATCH_GAP, 0],
  ]);
}

/** Neighbours end and begin at the same place, so that no background shows between them. */
function halfPixel(x: number): number {
  return Math.round(2 * x) / 2;
}
