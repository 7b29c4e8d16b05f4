import { count } from "../format";
import { colour } from "../theme";
import type { Distribution } from "./distribution";
import { ridgeLayout, ridgeOutline } from "./ridge-layout";
import { digits, element, line, picture, shortened, text } from "./svg";

const WIDTH = 900;
const HEIGHT = 480;
const TOP = 30;

/** Histograms over time as a whole SVG document, a path for each. */
export function ridgeSvg(data: Distribution, heading: string, unit: string): string {
  const layout = ridgeLayout(data, WIDTH, HEIGHT - TOP);
  const ridges = data.steps.map((step, i) => {
    const points = ridgeOutline(layout, i).map(([x, y]) => `${digits(x)} ${digits(y)}`);
    const label = layout.labelled.has(i)
      ? text(layout.left - 8, (layout.baselines[i] ?? 0) + 4, count(step), { "text-anchor": "end" })
      : "";
    return element("path", {
      d: `M${points.join("L")}`,
      fill: colour("--paper"),
      "fill-opacity": 0.85,
      stroke: colour("--series-1"),
      "stroke-opacity": ridgeOpacity(i, data.steps.length),
    }).concat(label);
  });
  const axis = layout.ticks.map(({ at, text: label }) =>
    line(at, layout.bottom + 2, at, layout.bottom + 6, { stroke: colour("--line") }).concat(
      text(at, layout.bottom + 19, label, { "text-anchor": "middle" }),
    ),
  );
  const tails = layout.tails.map((at) =>
    line(at, 4, at, layout.bottom, { stroke: colour("--line"), "stroke-dasharray": "2 3" }),
  );
  const middle = (layout.bottom + 4) / 2;
  const labels = [
    text((layout.left + layout.right) / 2, layout.bottom + 34, unit, { "text-anchor": "middle" }),
    text(14, middle, "step", { "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }),
  ];
  const body = element(
    "g",
    { transform: `translate(0 ${TOP})` },
    [...ridges, ...tails, ...axis, ...labels].join(""),
  );
  const title = text(layout.left, 20, shortened(heading, 110), {
    fill: colour("--ink"),
    "font-size": 13,
    "font-weight": 600,
  });
  return picture(WIDTH, HEIGHT, heading, title + body);
}

/** Later histograms, which stand in front, are drawn stronger. */
export function ridgeOpacity(index: number, steps: number): number {
  return 0.35 + 0.65 * (steps > 1 ? index / (steps - 1) : 1);
}
