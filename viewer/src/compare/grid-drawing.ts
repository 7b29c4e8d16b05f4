import { tickTexts } from "../charts/numbers";
import { stepTicks, ticks } from "../charts/scale";
import { colour } from "../theme";
import type { Comparison } from "./comparison";
import { AXIS, CHARACTER, endOf, fittingPath, type GridLayout, ROW } from "./grid-layout";
import { shade } from "./shades";

export interface GridShown {
  comparison: Comparison;
  far: Float64Array;
  limit: number;
  /** Pixels of rows above the first that is seen, and how many are seen. */
  scrolled: number;
  height: number;
  chosen: string;
  pointed: { row: number; column: number | null } | null;
}

/** Draws the rows that are seen, and the axis below them. */
export function drawGrid(
  ctx: CanvasRenderingContext2D,
  layout: GridLayout,
  shown: GridShown,
): void {
  const { comparison, scrolled, height } = shown;
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, 0, layout.right + 1, height);
  ctx.clip();
  const first = Math.floor(scrolled / ROW);
  const last = Math.min(comparison.about.paths.length, Math.ceil((scrolled + height) / ROW));
  const empty = hatch(ctx);
  for (let row = first; row < last; row++) drawRow(ctx, layout, shown, row, empty);
  ctx.restore();
  drawAxis(ctx, layout, comparison, height);
}

function drawRow(
  ctx: CanvasRenderingContext2D,
  layout: GridLayout,
  { comparison, far, limit, scrolled, chosen, pointed }: GridShown,
  row: number,
  empty: CanvasPattern | string,
): void {
  const { paths, merged } = comparison.about;
  const path = paths[row] ?? "";
  const columns = comparison.position.length;
  const y = row * ROW - scrolled;
  for (let column = 0; column < columns; column++) {
    // Whole pixels, so that no seams are seen between cells.
    const left = Math.round(layout.borders[column] ?? 0);
    const right = Math.round(layout.borders[column + 1] ?? 0);
    ctx.fillStyle = shade(far[row * columns + column] ?? Number.NaN, limit) ?? empty;
    ctx.fillRect(left, y, Math.max(1, right - left), ROW - 1);
  }
  const isChosen = path === chosen;
  const isBold = isChosen || merged[row];
  ctx.font = `${isBold ? 600 : 400} 11px ${colour("--sans")}`;
  ctx.fillStyle = colour(isChosen ? "--accent" : pointed?.row === row ? "--ink" : "--muted");
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  const character = isBold ? CHARACTER.bold : CHARACTER.plain;
  ctx.fillText(fittingPath(path, layout.left - 10, character), layout.left - 8, y + ROW / 2);
  if (isChosen) outline(ctx, layout.left, y, layout.right - layout.left, colour("--accent"));
  if (pointed?.row === row && pointed.column !== null) {
    const left = layout.borders[pointed.column] ?? 0;
    outline(ctx, left, y, (layout.borders[pointed.column + 1] ?? 0) - left, colour("--ink"));
  }
}

function drawAxis(
  ctx: CanvasRenderingContext2D,
  layout: GridLayout,
  { position, about }: Comparison,
  top: number,
): void {
  const interval = { low: position[0] ?? 0, high: endOf(position) };
  const count = (layout.right - layout.left) / 90;
  const steps = about.align === "step";
  const found = steps ? stepTicks(interval, count) : ticks(interval, "linear", count);
  const texts = tickTexts(found);
  ctx.font = `11px ${colour("--sans")}`;
  ctx.fillStyle = colour("--muted");
  ctx.strokeStyle = colour("--line");
  ctx.textAlign = "center";
  ctx.textBaseline = "top";
  found.forEach((tick, i) => {
    const part = (tick - interval.low) / (interval.high - interval.low || 1);
    const x = layout.left + part * (layout.right - layout.left);
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + 4);
    ctx.stroke();
    ctx.fillText(texts[i] ?? "", x, top + 6);
  });
  const label = steps ? "step" : "share of training";
  ctx.fillText(label, (layout.left + layout.right) / 2, top + AXIS - 13);
}

function outline(ctx: CanvasRenderingContext2D, x: number, y: number, width: number, ink: string) {
  ctx.strokeStyle = ink;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(x, y, width, ROW - 1);
}

/** What cells look like that cannot be compared. */
function hatch(ctx: CanvasRenderingContext2D): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = 6;
  tile.height = 6;
  const pen = tile.getContext("2d");
  if (!pen) return colour("--hatch");
  pen.strokeStyle = colour("--hatch");
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(0, 6);
  pen.lineTo(6, 0);
  pen.stroke();
  return ctx.createPattern(tile, "repeat") ?? colour("--hatch");
}
