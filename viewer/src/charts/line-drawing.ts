import type uPlot from "uplot";
import { colour } from "../theme";
import { belowLog, fittingSections } from "./line-layout";
import type { Shown } from "./line-options";

/** What uPlot does not draw by itself. All sizes are in pixels of the canvas. */

/** Under the lines: where epochs begin, and values that mean something. */
export function drawUnder(u: uPlot, { model }: Shown): void {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.lineWidth = ratio;
  ctx.font = `${10 * ratio}px ${colour("--sans")}`;
  const place = (position: number) => (u.valToPos(position, "x", true) - bbox.left) / ratio;
  for (const { at, label } of fittingSections(model, place, bbox.width / ratio)) {
    const x = bbox.left + at * ratio;
    ctx.strokeStyle = colour("--line");
    ctx.setLineDash([2 * ratio, 3 * ratio]);
    stroke(ctx, x, bbox.top, x, bbox.top + bbox.height);
    ctx.fillStyle = colour("--faint");
    ctx.textAlign = "left";
    ctx.textBaseline = "bottom";
    ctx.fillText(label, x, bbox.top - 3 * ratio);
  }
  for (const { value, label } of model.rules ?? []) {
    const y = u.valToPos(value, "y", true);
    ctx.strokeStyle = colour("--muted");
    ctx.setLineDash([6 * ratio, 4 * ratio]);
    stroke(ctx, bbox.left, y, bbox.left + bbox.width, y);
    ctx.fillStyle = colour("--muted");
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    ctx.fillText(label, bbox.left + bbox.width - 4 * ratio, y - 2 * ratio);
  }
  ctx.restore();
}

/** Over the lines: crosses where elements were not finite, and zeros that a log scale has not. */
export function drawOver(u: uPlot, { model, view }: Shown): void {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio;
  const place = (index: number) => u.valToPos(model.axis.position[index] ?? 0, "x", true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - 5 * ratio, bbox.top, bbox.width + 10 * ratio, bbox.height);
  ctx.clip();
  let end = { line: -1, at: 0 };
  for (const { line, index } of belowLog(model, view)) {
    const at = place(index);
    // Where many follow each other, as many as can be told apart.
    if (line === end.line && at < end.at + 9 * ratio) continue;
    end = { line, at };
    ctx.strokeStyle = colour(`--${model.lines[line]?.colour ?? "ink"}`);
    ctx.lineWidth = ratio;
    triangle(ctx, at, bbox.top + bbox.height - 2 * ratio, 4 * ratio);
  }
  ctx.strokeStyle = colour("--nonfinite");
  ctx.lineWidth = 2 * ratio;
  for (const { index } of model.marks ?? [])
    cross(ctx, place(index), bbox.top + 6 * ratio, 4 * ratio);
  ctx.restore();
}

function stroke(ctx: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number) {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}

function cross(ctx: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  stroke(ctx, x - size, y - size, x + size, y + size);
  stroke(ctx, x - size, y + size, x + size, y - size);
}

/** A triangle that points down, out of the chart. */
function triangle(ctx: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  ctx.beginPath();
  ctx.moveTo(x - size, y - 1.5 * size);
  ctx.lineTo(x + size, y - 1.5 * size);
  ctx.lineTo(x, y);
  ctx.closePath();
  ctx.stroke();
}
