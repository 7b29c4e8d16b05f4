import { count } from "../format";
import type { Distribution } from "./distribution";
import { bottomAxis, heading } from "./frame";
import { type RidgeLayout, ridgeLayout, ridgeOutline } from "./ridge-layout";
import { group, line, type Picture, rect, type Shape, text } from "./scene";

const WIDTH = 900;
const HEIGHT = 480;
const TOP = 30;

/** Histograms over time, the first one at the back; `marked` is the bin under the pointer. */
export function ridgeScene(
  data: Distribution,
  layout: RidgeLayout,
  unit: string,
  marked: { step: number; bin: number } | null,
): Shape[] {
  const { left, right, bottom } = layout;
  return [
    ...data.steps.flatMap((step, i): Shape[] => {
      const isMarked = marked?.step === i;
      const name = text(left - 8, (layout.baselines[i] ?? 0) + 4, count(step), { align: "right" });
      return [
        {
          type: "path",
          lines: [ridgeOutline(layout, i)],
          fill: "--paper",
          fillOpacity: 0.85,
          stroke: isMarked ? "--series-2" : "--series-1",
          strokeOpacity: isMarked ? 1 : opacity(i, data.steps.length),
          width: isMarked ? 2 : 1,
        },
        ...(layout.labelled.has(i) ? [name] : []),
      ];
    }),
    ...(marked ? [binShape(layout, marked)] : []),
    ...layout.tails.map((at) => line([at, 4], [at, bottom], "--line", [2, 3])),
    ...bottomAxis(layout.ticks, unit, { left, right, top: bottom + 2 }),
    text(14, (bottom + 4) / 2, "step", { align: "center", upwards: true }),
  ];
}

export function ridgePicture(data: Distribution, title: string, unit: string): Picture {
  const layout = ridgeLayout(data, WIDTH, HEIGHT - TOP);
  const scene = ridgeScene(data, layout, unit, null);
  return {
    width: WIDTH,
    height: HEIGHT,
    title,
    scene: [heading(layout.left, title), group(0, TOP, scene)],
  };
}

/** Later histograms, which stand in front, have stronger lines. */
function opacity(index: number, steps: number): number {
  return 0.35 + 0.65 * (steps > 1 ? index / (steps - 1) : 1);
}

function binShape(layout: RidgeLayout, { step, bin }: { step: number; bin: number }): Shape {
  const x = layout.borders[bin] ?? 0;
  const width = (layout.borders[bin + 1] ?? 0) - x;
  const height = layout.height(step, bin) || 0;
  const y = (layout.baselines[step] ?? 0) - height;
  return rect({ x, y, width, height: Math.max(height, 1) }, "--series-2", 0.5);
}
