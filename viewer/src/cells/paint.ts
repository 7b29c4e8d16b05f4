import type { CellsShape, Palette } from "../charts/scene";
import { type CellRow, gapOf, visibleRows } from "./grid";
import { heldSpans } from "./spans";

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
  const pixel = (at: number) => Math.min(width, Math.max(0, Math.round(view.scale.x(at) * ratio)));
  const lines = colourLines(rows, width, pixel, (value) => grid.colours.pixel(value));
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
    for (const [from, to] of nonfiniteRuns(row, pixel, NARROWEST * ratio))
      ctx.fillRect(from, 0, to - from, height);
  });
  ctx.restore();
}

let shared: HTMLCanvasElement | null = null;

/** The colours of the rows as an image with one pixel of height for each row. */
function colourLines(
  rows: readonly (CellRow | null)[],
  width: number,
  pixel: (position: number) => number,
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
    for (const { column, begin, end } of heldSpans(row))
      pixels.fill(
        colour(row.values[column] ?? Number.NaN),
        i * width + pixel(begin),
        i * width + pixel(end),
      );
  });
  ctx.putImageData(image, 0, 0);
  return canvas;
}

/** The runs of neighbouring cells with NaN or Inf, in device pixels. */
export function* nonfiniteRuns(
  row: CellRow,
  pixel: (position: number) => number,
  narrowest: number,
): Generator<[from: number, to: number]> {
  if (row.nonfinite === undefined) return;
  let run: [from: number, to: number] | null = null;
  for (const { column, begin, end } of heldSpans(row)) {
    const [from, to] = [pixel(begin), pixel(end)];
    // Cells outside of the view have no width.
    if (from === to) continue;
    if (!row.nonfinite(column)) {
      if (run) yield widened(run, narrowest);
      run = null;
    } else run = [run ? run[0] : from, to];
  }
  if (run) yield widened(run, narrowest);
}

function widened([from, to]: [number, number], narrowest: number): [from: number, to: number] {
  return [from, Math.max(to, from + narrowest)];
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
