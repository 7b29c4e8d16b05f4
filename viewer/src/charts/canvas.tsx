import { useEffect, useRef } from "preact/hooks";
import { useTheme } from "../theme";
import { useSize } from "../use";

/** Draws on a surface of so many CSS pixels; it is empty, and as sharp as the screen. */
export type Draw = (ctx: CanvasRenderingContext2D, width: number) => void;

/**
 * A canvas as wide as its place that is drawn again when it, the theme or `draw` changes.
 * `onPoint` is told where the pointer is, in CSS pixels, and null when it has left.
 */
export function Canvas({
  height,
  draw,
  onPoint,
  onPress,
}: {
  height: number;
  draw: Draw;
  onPoint?: (at: { x: number; y: number; width: number } | null) => void;
  onPress?: () => void;
}) {
  const [measure, { width }] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  useEffect(() => {
    const surface = canvas.current;
    const ctx = surface?.getContext("2d");
    if (!surface || !ctx || width === 0) return;
    const ratio = devicePixelRatio;
    surface.width = Math.round(width * ratio);
    surface.height = Math.round(height * ratio);
    ctx.scale(ratio, ratio);
    draw(ctx, width);
  }, [draw, width, height, theme]);
  const point = (event: PointerEvent) => onPoint?.({ x: event.offsetX, y: event.offsetY, width });
  return (
    <div class="chart-canvas" ref={measure}>
      <canvas
        ref={canvas}
        style={{ display: "block", width: "100%", height: `${height}px` }}
        onPointerMove={point}
        onPointerLeave={() => onPoint?.(null)}
        onClick={onPress}
      />
    </div>
  );
}
