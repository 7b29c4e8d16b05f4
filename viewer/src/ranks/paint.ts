import { columnEnds } from "../heatmap/band";
import { crossPattern, hatchPattern } from "../heatmap/paint";
import { colour } from "../theme";
import type { TimeScale } from "../time/range";
import type { Colouring } from "./colouring";
import type { RankTable } from "./rows";

/** Marks of what is not a number must be found, however narrow their columns are. */
const NARROWEST = 3;

/** Draws a row for each rank, or for some neighbouring ones, sharp on every screen. */
export function paintRanks(
  canvas: HTMLCanvasElement,
  table: RankTable,
  scale: TimeScale,
  rowHeight: number,
  colouring: Colouring,
): void {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.max(1, Math.round(scale.width * ratio));
  canvas.width = width;
  canvas.height = Math.max(1, Math.round(table.rows.length * rowHeight * ratio));
  const context = canvas.getContext("2d");
  if (context === null) return;
  context.fillStyle = hatchPattern(context, ratio);
  context.fillRect(0, 0, width, canvas.height);
  const cross = crossPattern(context, ratio);
  const edges = pixelEdges(table, scale, ratio, width);
  // Between low rows there is no room for a gap.
  const gap = rowHeight >= 6 ? Math.max(1, Math.round(ratio)) : 0;
  const columns = table.about.first.length;
  table.rows.forEach(({ place }, i) => {
    const top = Math.round(i * rowHeight * ratio);
    const tall = Math.round((i + 1) * rowHeight * ratio) - top - gap;
    edges.forEach(([left, right], column) => {
      const value = table.values[place * columns + column] ?? Number.NaN;
      if (right <= left || !Number.isFinite(value)) return;
      context.fillStyle = colouring.css(value);
      context.fillRect(left, top, right - left, tall);
    });
    context.fillStyle = cross;
    edges.forEach(([left, right], column) => {
      if (right <= left || !table.nonfinite.has(place * columns + column)) return;
      context.fillRect(left, top, Math.max(right - left, NARROWEST * ratio), tall);
    });
    if (gap > 0) {
      context.fillStyle = colour("--paper");
      context.fillRect(0, top + tall, width, gap);
    }
  });
}

/** Where columns begin and end, in pixels of the canvas. */
function pixelEdges(
  { about }: RankTable,
  scale: TimeScale,
  ratio: number,
  width: number,
): [left: number, right: number][] {
  const ends = columnEnds(about.first, about.last);
  const pixel = (step: number) => Math.min(width, Math.max(0, Math.round(scale.x(step) * ratio)));
  return about.first.map((step, column) => [pixel(step), pixel(ends[column] ?? step)]);
}

/** The column under a step; -1 if there is none. */
export function columnAt({ about }: RankTable, step: number): number {
  const ends = columnEnds(about.first, about.last);
  return about.first.findIndex((first, i) => step >= first && step < (ends[i] ?? first));
}
