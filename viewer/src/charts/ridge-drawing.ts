import { count } from "../format";
import { colour } from "../theme";
import type { Distribution } from "./distribution";
import { type RidgeLayout, ridgeOutline } from "./ridge-layout";
import { ridgeOpacity } from "./ridge-svg";

/** Draws histograms over time, the first one at the back; `marked` is the one that is pointed at. */
export function drawRidge(
  ctx: CanvasRenderingContext2D,
  data: Distribution,
  layout: RidgeLayout,
  unit: string,
  marked: { step: number; bin: number } | null,
): void {
  ctx.font = `11px ${colour("--sans")}`;
  data.steps.forEach((step, i) => {
    const isMarked = marked?.step === i;
    trace(ctx, ridgeOutline(layout, i));
    ctx.globalAlpha = 0.85;
    ctx.fillStyle = colour("--paper");
    ctx.fill();
    ctx.globalAlpha = isMarked ? 1 : ridgeOpacity(i, data.steps.length);
    ctx.lineWidth = isMarked ? 2 : 1;
    ctx.strokeStyle = colour(isMarked ? "--series-2" : "--series-1");
    ctx.stroke();
    ctx.globalAlpha = 1;
    if (layout.labelled.has(i))
      label(ctx, count(step), layout.left - 8, layout.baselines[i] ?? 0, "right");
  });
  if (marked) drawBin(ctx, layout, marked);
  ctx.strokeStyle = colour("--line");
  ctx.lineWidth = 1;
  ctx.setLineDash([2, 3]);
  for (const at of layout.tails) {
    trace(ctx, [
      [at, 4],
      [at, layout.bottom],
    ]);
    ctx.stroke();
  }
  ctx.setLineDash([]);
  for (const { at, text } of layout.ticks) {
    trace(ctx, [
      [at, layout.bottom + 2],
      [at, layout.bottom + 6],
    ]);
    ctx.stroke();
    label(ctx, text, at, layout.bottom + 14, "center");
  }
  label(ctx, unit, (layout.left + layout.right) / 2, layout.bottom + 30, "center");
  ctx.save();
  ctx.translate(9, (layout.bottom + 4) / 2);
  ctx.rotate(-Math.PI / 2);
  label(ctx, "step", 0, 0, "center");
  ctx.restore();
}

function drawBin(
  ctx: CanvasRenderingContext2D,
  layout: RidgeLayout,
  { step, bin }: { step: number; bin: number },
): void {
  const [left, right] = [layout.borders[bin] ?? 0, layout.borders[bin + 1] ?? 0];
  const height = layout.height(step, bin) || 0;
  ctx.globalAlpha = 0.5;
  ctx.fillStyle = colour("--series-2");
  ctx.fillRect(left, (layout.baselines[step] ?? 0) - height, right - left, Math.max(height, 1));
  ctx.globalAlpha = 1;
}

function trace(ctx: CanvasRenderingContext2D, points: [number, number][]): void {
  ctx.beginPath();
  for (const [x, y] of points) ctx.lineTo(x, y);
}

function label(
  ctx: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  align: CanvasTextAlign,
): void {
  ctx.fillStyle = colour("--muted");
  ctx.textAlign = align;
  ctx.textBaseline = "middle";
  ctx.fillText(text, x, y);
}
