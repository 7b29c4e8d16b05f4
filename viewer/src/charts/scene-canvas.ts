import { paintCells } from "../cells/paint";
import { printable } from "../format";
import { colour } from "../theme";
import {
  cachedPalette,
  type Palette,
  type PathShape,
  type Picture,
  rect,
  type Scene,
  type Shape,
  TEXT_SIZE,
  type TextShape,
} from "./scene";

/** Draws a scene on a context whose unit is a CSS pixel. */
export function drawScene(ctx: CanvasRenderingContext2D, scene: Scene, palette = colour): void {
  drawShapes(ctx, scene, cachedPalette(palette));
}

/** Draws a scene on a canvas of a size in CSS pixels, at the resolution of the screen. */
export function drawOn(
  canvas: HTMLCanvasElement,
  size: { width: number; height: number },
  scene: Scene,
  ratio = window.devicePixelRatio || 1,
): void {
  const width = Math.max(1, Math.round(size.width * ratio));
  const height = Math.max(1, Math.round(size.height * ratio));
  // Setting the size takes time even if it stays the same.
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const ctx = canvas.getContext("2d");
  if (ctx === null) return;
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.scale(ratio, ratio);
  drawScene(ctx, scene);
}

/** A picture as PNG, with `ratio` pixels for each CSS pixel. */
export async function scenePng({ width, height, scene }: Picture, ratio: number): Promise<Blob> {
  const canvas = document.createElement("canvas");
  const background = rect({ x: 0, y: 0, width, height }, "--paper");
  drawOn(canvas, { width, height }, [background, ...scene], ratio);
  return await new Promise((resolve, reject) =>
    canvas.toBlob((blob) =>
      blob ? resolve(blob) : reject(new Error("The picture is too large for this browser.")),
    ),
  );
}

function drawShapes(ctx: CanvasRenderingContext2D, scene: Scene, palette: Palette): void {
  for (const shape of scene) drawShape(ctx, shape, palette);
}

function drawShape(ctx: CanvasRenderingContext2D, shape: Shape, palette: Palette): void {
  switch (shape.type) {
    case "path":
      drawPath(ctx, shape, palette);
      break;
    case "text":
      drawText(ctx, shape, palette);
      break;
    case "cells":
      paintCells(ctx, shape, palette);
      break;
    case "group":
      ctx.save();
      ctx.translate(shape.x, shape.y);
      if (shape.clip) {
        const { x, y, width, height } = shape.clip;
        ctx.beginPath();
        ctx.rect(x, y, width, height);
        ctx.clip();
      }
      drawShapes(ctx, shape.content, palette);
      ctx.restore();
  }
}

function drawPath(ctx: CanvasRenderingContext2D, shape: PathShape, palette: Palette): void {
  const { lines, fill, stroke, dash = [] } = shape;
  ctx.beginPath();
  for (const points of lines) {
    points.forEach(([x, y], i) => {
      if (i === 0) ctx.moveTo(x, y);
      // A canvas does not draw lines without length.
      if (i > 0 || points.length === 1) ctx.lineTo(points.length === 1 ? x + 0.01 : x, y);
    });
    if (shape.closed) ctx.closePath();
  }
  if (fill !== undefined) {
    ctx.globalAlpha = shape.fillOpacity ?? 1;
    ctx.fillStyle = palette(fill);
    ctx.fill();
  }
  if (stroke !== undefined) {
    ctx.globalAlpha = shape.strokeOpacity ?? 1;
    ctx.strokeStyle = palette(stroke);
    ctx.lineWidth = shape.width ?? 1;
    ctx.lineCap = lines.some(({ length }) => length === 1) ? "round" : "butt";
    ctx.lineJoin = "round";
    ctx.setLineDash([...dash]);
    ctx.stroke();
    ctx.setLineDash([]);
  }
  ctx.globalAlpha = 1;
}

function drawText(ctx: CanvasRenderingContext2D, shape: TextShape, palette: Palette): void {
  const { x, y, fill = "--muted", size = TEXT_SIZE, bold, align = "left", upwards } = shape;
  ctx.save();
  ctx.font = `${bold ? 600 : 400} ${size}px ${palette("--sans")}`;
  ctx.fillStyle = palette(fill);
  ctx.textAlign = align;
  ctx.textBaseline = "alphabetic";
  ctx.translate(x, y);
  if (upwards) ctx.rotate(-Math.PI / 2);
  ctx.fillText(printable(shape.text), 0, 0);
  ctx.restore();
}
