import { colour } from "../theme";
import type { TimeScale } from "../time/range";
import type { Band } from "./band";
import type { Loader } from "./loader";

/** Marks of what is not a number must be found, however narrow their columns are. */
const NARROWEST = 3;

export interface Picture {
  /** The rows from the topmost that is visible on. */
  rows: readonly number[];
  /** Where the topmost begins; it may be partly above the edge. */
  top: number;
  rowHeight: number;
  height: number;
  scale: TimeScale;
  loader: Loader;
}

/** Draws the cells of some rows, sharp on every screen. */
export function paintCells(canvas: HTMLCanvasElement, picture: Picture): void {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.max(1, Math.round(picture.scale.width * ratio));
  const height = Math.max(1, Math.round(picture.height * ratio));
  // Setting a canvas's size clears it and takes time.
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d");
  if (context === null) return;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = colour("--panel");
  context.fillRect(0, 0, width, height);
  const lines = colourLines(picture, ratio, width);
  const hatch = hatchPattern(context, ratio);
  const cross = crossPattern(context, ratio);
  context.imageSmoothingEnabled = false;
  picture.rows.forEach((node, i) => {
    const band = picture.loader.band(node);
    const row = band?.place.get(node);
    if (band === null || row === undefined) return;
    const y = Math.round((picture.top + i * picture.rowHeight) * ratio);
    const below = Math.round((picture.top + (i + 1) * picture.rowHeight) * ratio);
    const tall = below - y - Math.max(1, Math.round(ratio));
    // Patterns move with the rows that they fill.
    context.setTransform(1, 0, 0, 1, 0, y);
    context.fillStyle = hatch;
    context.fillRect(0, 0, width, tall);
    context.drawImage(lines.canvas, 0, i, width, 1, 0, 0, width, tall);
    if (band.nonfinite.size === 0) return;
    context.fillStyle = cross;
    for (const [left, right] of nonfiniteRuns(band, row, lines.edges(band), NARROWEST * ratio))
      context.fillRect(left, 0, right - left, tall);
  });
}

interface Edges {
  left: Int32Array;
  right: Int32Array;
}

interface Lines {
  /** A picture of one pixel's height a row. */
  canvas: HTMLCanvasElement;
  edges: (band: Band) => Edges;
}

let shared: HTMLCanvasElement | null = null;

function colourLines({ rows, scale, loader }: Picture, ratio: number, width: number): Lines {
  shared ??= document.createElement("canvas");
  const canvas = shared;
  canvas.width = width;
  canvas.height = Math.max(1, rows.length);
  const context = canvas.getContext("2d");
  const known = new Map<Band, Edges>();
  const edges = (band: Band): Edges => {
    const found = known.get(band) ?? pixelEdges(band, scale, ratio, width);
    known.set(band, found);
    return found;
  };
  if (context === null) return { canvas, edges };
  const image = context.createImageData(width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const { limits } = loader;
  rows.forEach((node, i) => {
    const band = loader.band(node);
    const row = band?.place.get(node);
    if (band === null || row === undefined) return;
    const { left, right } = edges(band);
    const columns = band.first.length;
    for (let column = 0; column < columns; column++) {
      const value = band.values[row * columns + column] ?? Number.NaN;
      const begin = left[column] ?? 0;
      const end = right[column] ?? 0;
      if (end > begin && Number.isFinite(value))
        pixels.fill(limits.pixel(value), i * width + begin, i * width + end);
    }
  });
  context.putImageData(image, 0, 0);
  return { canvas, edges };
}

function pixelEdges(band: Band, scale: TimeScale, ratio: number, width: number): Edges {
  const left = new Int32Array(band.first.length);
  const right = new Int32Array(band.first.length);
  const pixel = (step: number) => Math.min(width, Math.max(0, Math.round(scale.x(step) * ratio)));
  band.first.forEach((step, column) => {
    left[column] = pixel(step);
    right[column] = pixel(band.ends[column] ?? step);
  });
  return { left, right };
}

/** Where neighbouring cells are not finite, as pixels from and to. */
function* nonfiniteRuns(
  band: Band,
  row: number,
  { left, right }: Edges,
  narrowest: number,
): Generator<[number, number]> {
  const columns = band.first.length;
  let begin = -1;
  let end = -1;
  for (let column = 0; column <= columns; column++) {
    const at = row * columns + column;
    const bad = column < columns && band.nonfinite.has(at);
    if (bad && begin < 0) begin = left[column] ?? 0;
    if (bad) end = right[column] ?? 0;
    else if (begin >= 0) {
      // A column outside of what is shown has shrunk to nothing at its edge.
      if (end > begin) yield [begin, Math.max(end, begin + narrowest)];
      begin = -1;
    }
  }
}

/** Nothing was measured: faint slanted lines. */
export function hatchPattern(
  context: CanvasRenderingContext2D,
  ratio: number,
): CanvasPattern | string {
  return tile(context, Math.round(6 * ratio), (draw, size) => {
    draw.fillStyle = colour("--paper");
    draw.fillRect(0, 0, size, size);
    draw.strokeStyle = colour("--hatch");
    draw.lineWidth = ratio;
    draw.beginPath();
    for (const shift of [-size, 0, size]) {
      draw.moveTo(shift, size);
      draw.lineTo(shift + size, 0);
    }
    draw.stroke();
  });
}

/** Not finite: a loud colour, and crosses for those who do not see it. */
export function crossPattern(
  context: CanvasRenderingContext2D,
  ratio: number,
): CanvasPattern | string {
  return tile(context, Math.round(7 * ratio), (draw, size) => {
    draw.fillStyle = colour("--nonfinite");
    draw.fillRect(0, 0, size, size);
    draw.strokeStyle = colour("--nonfinite-ink");
    draw.lineWidth = ratio;
    draw.beginPath();
    draw.moveTo(size * 0.2, size * 0.2);
    draw.lineTo(size * 0.8, size * 0.8);
    draw.moveTo(size * 0.8, size * 0.2);
    draw.lineTo(size * 0.2, size * 0.8);
    draw.stroke();
  });
}

function tile(
  context: CanvasRenderingContext2D,
  size: number,
  draw: (context: CanvasRenderingContext2D, size: number) => void,
): CanvasPattern | string {
  const canvas = document.createElement("canvas");
  canvas.width = size;
  canvas.height = size;
  const own = canvas.getContext("2d");
  if (own) draw(own, size);
  return context.createPattern(canvas, "repeat") ?? colour("--muted");
}
