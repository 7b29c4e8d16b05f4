import { useLayoutEffect, useRef } from "preact/hooks";
import { useTheme } from "../theme";
import { useSize } from "../use";
import type { Scene } from "./scene";
import { drawOn } from "./scene-canvas";

/**
 * A canvas of the width of its container, with the scene that `scene` returns for this width. It is
 * redrawn when the width, the theme or `scene` changes. `onPoint` receives the position of the
 * pointer in CSS pixels, and null when the pointer leaves.
 */
export function SceneCanvas({
  height,
  scene,
  onPoint,
  onPress,
}: {
  height: number;
  scene: (width: number) => Scene;
  onPoint?: (at: { x: number; y: number; width: number } | null) => void;
  onPress?: () => void;
}) {
  const [measure, { width }] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  useLayoutEffect(() => {
    if (canvas.current && width > 0) drawOn(canvas.current, { width, height }, scene(width));
  }, [scene, width, height, theme]);
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
