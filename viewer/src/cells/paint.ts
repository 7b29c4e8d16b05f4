import type { CellsShape, Palette } from "../charts/scene";
import { type CellColumns, type CellRow, gapOf, visibleRows } from "./grid";

/** The least width of a mark of NaN or Inf, so that narrow columns stay visible. */
const NARROWEST = 3;

/**
 * Paints the visible cells in device pixels, sharp on every screen. Each row is a line of an image
 * one pixel high that is stretched to the height of the row: this is fast for large grids.
 */
export function paintCells(
  ctx: CanvasRenderingContext2D,
  { x, y, grid, view }: CellsShape,
  palette: Palette,
): void {
  const { a: ratio, e, f } = ctx.getTransform();
  const left = Math.round(e + x * ratio);
  const top = f + y * ratio;
  const width = Math.max(1, Math.round(view.scale.width * ratio));
  const gap = gapOf(view) * Math.max(1, Math.round(ratio));
  const [begin, end] = visibleRows(grid.rows, view);
  const rows = Array.from({ length: Math.max(0, end - begin) }, (_, i) => grid.row(begin + i));
  const edges = edgeCache(view.scale.x, ratio, width);
  const lines = colourLines(rows, width, edges, (value) => grid.colours.pixel(value));
  const hatch = hatchPattern(ctx, ratio, palette);
  const cross = crossPattern(ctx, ratio, palette);
  ctx.save();
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.beginPath();
  ctx.rect(left, Math.round(top), width, Math.round(view.height * ratio));
  ctx.clip();
  ctx.imageSmoothingEnabled = false;
  rows.forEach((row, i) => {
    if (row === null) return;
    const place = (index: number) =>
      Math.round(top + ((begin + index) * view.rowHeight - view.scrolled) * ratio);
    const height = place(i + 1) - place(i) - gap;
    // Patterns move with the rows that they fill.
    ctx.setTransform(1, 0, 0, 1, left, place(i));
    ctx.fillStyle = hatch;
    ctx.fillRect(0, 0, width, height);
    ctx.drawImage(lines, 0, i, width, 1, 0, 0, width, height);
    ctx.fillStyle = cross;
    for (const [from, to] of nonfiniteRuns(row, edges(row.columns), NARROWEST * ratio))
      ctx.fillRect(from, 0, to - from, height);
  });
  ctx.restore();
}

interface Edges {
  left: Int32Array;
  right: Int32Array;
}

/** The edges of columns in device pixels; rows often share their columns. */
function edgeCache(x: (position: number) => number, ratio: number, width: number) {
  const known = new Map<CellColumns, Edges>();
  const pixel = (at: number) => Math.min(width, Math.max(0, Math.round(x(at) * ratio)));
  return (columns: CellColumns): Edges => {
    const found = known.get(columns) ?? {
      left: Int32Array.from(columns.first, pixel),
      right: Int32Array.from(columns.ends, pixel),
    };
    known.set(columns, found);
    return found;
  };
}

let shared: HTMLCanvasElement | null = null;

/** The colours of the rows as an image with one pixel of height for each row. */
function colourLines(
  rows: readonly (CellRow | null)[],
  width: number,
  edges: (columns: CellColumns) => Edges,
  colour: (value: number) => number,
): HTMLCanvasElement {
  shared ??= document.createElement("canvas");
  const canvas = shared;
  canvas.width = width;
  canvas.height = Math.max(1, rows.length);
  const ctx = canvas.getContext("2d");
  if (ctx === null) return canvas;
  const image = ctx.createImageData(width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  rows.forEach((row, i) => {
    if (row === null) return;
    const { left, right } = edges(row.columns);
    for (let column = 0; column < left.length; column++) {
      const begin = left[column] ?? 0;
      const end = right[column] ?? 0;
      if (end > begin)
        pixels.fill(colour(row.values[column] ?? Number.NaN), i * width + begin, i * width + end);
    }
  });
  ctx.putImageData(image, 0, 0);
  return canvas;
}

/** The runs of neighbouring cells with NaN or Inf, in device pixels. */
export function* nonfiniteRuns(
  { nonfinite }: CellRow,
  { left, right }: Edges,
  narrowest: number,
): Generator<[from: number, to: number]> {
  if (nonfinite === undefined) return;
  let begin = -1;
  let end = -1;
  for (let column = 0; column <= left.length; column++) {
    const bad = column < left.length && nonfinite(column);
    if (bad && begin < 0) begin = left[column] ?? 0;
    if (bad) end = right[column] ?? 0;
    else if (begin >= 0) {
      // A column outside of the view has no width.
      if (end > begin) yield [begin, Math.max(end, begin + narrowest)];
      begin = -1;
    }
  }
}

type Context = CanvasRenderingContext2D;

/** Nothing was measured: faint slanted lines. */
function hatchPattern(ctx: Context, ratio: number, palette: Palette): CanvasPattern | string {
  return tile(ctx, Math.round(6 * ratio), palette("--paper"), (draw, size) => {
    draw.strokeStyle = palette("--hatch");
    draw.lineWidth = ratio;
    for (const shift of [-size, 0, size]) {
      draw.moveTo(shift, size);
      draw.lineTo(shift + size, 0);
    }
  });
}

/** NaN or Inf: a strong colour, and crosses for readers who do not see it. */
function crossPattern(ctx: Context, ratio: number, palette: Palette): CanvasPattern | string {
  return tile(ctx, Math.round(7 * ratio), palette("--nonfinite"), (draw, size) => {
    draw.strokeStyle = palette("--nonfinite-ink");
    draw.lineWidth = ratio;
    draw.moveTo(size * 0.2, size * 0.2);
    draw.lineTo(size * 0.8, size * 0.8);
    draw.moveTo(size * 0.8, size * 0.2);
    draw.lineTo(size * 0.2, size * 0.8);
  });
}

function tile(
  ctx: Context,
  size: number,
  background: string,
  draw: (ctx: Context, size: number) => void,
): CanvasPattern | string {
  const canvas = document.createElement("canvas");
  canvas.width = size;
  canvas.height = size;
  const own = canvas.getContext("2d");
  if (own) {
    own.fillStyle = background;
    own.fillRect(0, 0, size, size);
    own.beginPath();
    draw(own, size);
    own.stroke();
  }
  return ctx.createPattern(canvas, "repeat") ?? background;
}
