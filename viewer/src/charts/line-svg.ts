import { colour } from "../theme";
import {
  belowLog,
  fittingSections,
  type View,
  visiblePositions,
  visibleValues,
} from "./line-layout";
import type { LineModel } from "./model";
import { tickTexts } from "./numbers";
import { placed, stepTicks, ticks } from "./scale";
import { digits, element, line, picture, shortened, text } from "./svg";

const WIDTH = 900;
const HEIGHT = 354;
const LEFT = 74;
const RIGHT = 20;
const TOP = 48;
const BOTTOM = 66;
const LEGEND_ROW = 16;

/** A line chart as a whole SVG document: every line a path of its own, every label text. */
export function lineSvg(model: LineModel, view: View, heading: string): string {
  const x = visiblePositions(model, view);
  const y = visibleValues(model, view);
  const width = WIDTH - LEFT - RIGHT;
  const height = HEIGHT - TOP - BOTTOM;
  const px = (position: number) => LEFT + placed(position, x, "linear") * width;
  const py = (value: number) => TOP + (1 - placed(value, y, view.scale)) * height;
  const shown = <T extends { name: string }>(items: readonly T[]) =>
    items.filter(({ name }) => !view.hidden.has(name));

  const xTicks = model.axis.whole ? stepTicks(x, 8) : ticks(x, "linear", 8);
  const yTicks = ticks(y, view.scale, 6);
  const yTexts = tickTexts(yTicks);
  const xTexts = tickTexts(xTicks);
  const grid = colour("--grid");
  const bottom = TOP + height;

  const axes = [
    ...yTicks.map((tick, i) =>
      line(LEFT, py(tick), LEFT + width, py(tick), { stroke: grid }).concat(
        text(LEFT - 8, py(tick) + 4, yTexts[i] ?? "", { "text-anchor": "end" }),
      ),
    ),
    ...xTicks.map((tick, i) =>
      line(px(tick), bottom, px(tick), bottom + 4, { stroke: colour("--line") }).concat(
        text(px(tick), bottom + 17, xTexts[i] ?? "", { "text-anchor": "middle" }),
      ),
    ),
    line(LEFT, bottom, LEFT + width, bottom, { stroke: colour("--line") }),
    text(LEFT + width / 2, bottom + 34, model.axis.label, { "text-anchor": "middle" }),
    text(14, TOP + height / 2, unitText(model.unit, view), {
      "text-anchor": "middle",
      transform: `rotate(-90 14 ${TOP + height / 2})`,
    }),
    text(LEFT, 20, shortened(heading, 110), {
      fill: colour("--ink"),
      "font-size": 13,
      "font-weight": 600,
    }),
    ...fittingSections(model, (position) => px(position) - LEFT, width).map(({ at, label }) =>
      line(LEFT + at, TOP, LEFT + at, bottom, {
        stroke: colour("--line"),
        "stroke-dasharray": "2 3",
      }).concat(label ? text(LEFT + at, TOP - 4, label, { "font-size": 9.5 }) : ""),
    ),
  ];
  const drawn = [
    ...shown(model.bands ?? []).map((band) =>
      element("path", {
        d: bandPath(model.axis.position, band.low, band.high, px, py),
        fill: colour(`--${band.colour}`),
        "fill-opacity": band.opacity,
      }),
    ),
    ...(model.rules ?? []).map(({ value, label }) =>
      line(LEFT, py(value), LEFT + width, py(value), {
        stroke: colour("--muted"),
        "stroke-dasharray": "6 4",
      }).concat(text(LEFT + width - 4, py(value) - 4, label, { "text-anchor": "end" })),
    ),
    ...shown(model.lines).map(({ values, colour: name, dashed }) =>
      element("path", {
        d: linePath(model.axis.position, values, px, py),
        fill: "none",
        stroke: colour(`--${name}`),
        "stroke-width": 1.5,
        "stroke-linecap": "round",
        "stroke-dasharray": dashed ? "5 3" : undefined,
      }),
    ),
  ];
  const marks = [
    ...(model.marks ?? []).map(({ index }) => cross(px(model.axis.position[index] ?? 0), TOP + 6)),
    ...belowLog(model, view).map(({ line: at, index }) =>
      element("path", {
        d: triangle(px(model.axis.position[index] ?? 0), bottom - 3),
        fill: "none",
        stroke: colour(`--${model.lines[at]?.colour ?? "ink"}`),
      }),
    ),
  ];
  const clip = element(
    "clipPath",
    { id: "plot" },
    element("rect", { x: LEFT, y: TOP, width, height }),
  );
  const clipped = element("g", { "clip-path": "url(#plot)" }, [...drawn, ...marks].join(""));
  const { content, rows } = legend(model, view);
  const total = HEIGHT + (rows - 1) * LEGEND_ROW;
  return picture(WIDTH, total, heading, `${clip}${axes.join("")}${clipped}${content}`);
}

export function unitText(unit: string, { scale }: View): string {
  if (scale !== "log") return unit;
  return unit === "" ? "log scale" : `${unit} (log)`;
}

type Project = (value: number) => number;

function linePath(
  position: Float64Array,
  values: ArrayLike<number | undefined>,
  px: Project,
  py: Project,
) {
  const pieces: string[] = [];
  let pen = "M";
  for (let i = 0; i < position.length; i++) {
    const value = values[i];
    if (value === undefined) continue;
    const y = py(value);
    if (!Number.isFinite(y)) {
      pen = "M";
      continue;
    }
    const x = px(position[i] ?? 0);
    // A line of no length has round ends, so that a lone point is seen.
    pieces.push(pen === "M" ? `M${digits(x)} ${digits(y)}h0` : `L${digits(x)} ${digits(y)}`);
    pen = "L";
  }
  return pieces.join("");
}

function bandPath(
  position: Float64Array,
  low: ArrayLike<number>,
  high: ArrayLike<number>,
  px: Project,
  py: Project,
): string {
  const pieces: string[] = [];
  let upper: string[] = [];
  let lower: string[] = [];
  const close = () => {
    if (upper.length > 0) pieces.push(`M${upper.join("L")}L${lower.reverse().join("L")}Z`);
    upper = [];
    lower = [];
  };
  for (let i = 0; i < position.length; i++) {
    const x = digits(px(position[i] ?? 0));
    const top = py(high[i] ?? Number.NaN);
    const bottom = py(low[i] ?? Number.NaN);
    if (!Number.isFinite(top) || !Number.isFinite(bottom)) {
      close();
      continue;
    }
    upper.push(`${x} ${digits(top)}`);
    lower.push(`${x} ${digits(bottom)}`);
  }
  close();
  return pieces.join("");
}

function cross(x: number, y: number): string {
  const d = `M${digits(x - 4)} ${digits(y - 4)}l8 8m0 -8l-8 8`;
  return element("path", { d, stroke: colour("--nonfinite"), "stroke-width": 2, fill: "none" });
}

function triangle(x: number, y: number): string {
  return `M${digits(x - 4)} ${digits(y - 6)}h8l-4 6z`;
}

interface Legend {
  content: string;
  rows: number;
}

/** The names of what is drawn, in as many rows as they need. */
function legend(model: LineModel, view: View): Legend {
  let x = LEFT;
  let row = 0;
  const items = [
    ...model.lines.map(({ name, colour: tone }) => ({ name, tone, opacity: 1 })),
    ...(model.bands ?? []).map(({ name, colour: tone, opacity }) => ({ name, tone, opacity })),
  ].filter(({ name }) => !view.hidden.has(name));
  const pieces = items.map(({ name, tone, opacity }) => {
    const label = shortened(name, 60);
    const width = 34 + label.length * 6;
    if (x > LEFT && x + width > WIDTH) {
      x = LEFT;
      row++;
    }
    const y = HEIGHT - 10 + row * LEGEND_ROW;
    const key = { x, y: y - 8, width: 12, height: opacity < 1 ? 8 : 3, fill: colour(`--${tone}`) };
    const piece = element("rect", { ...key, "fill-opacity": opacity }) + text(x + 17, y, label);
    x += width;
    return piece;
  });
  return { content: pieces.join(""), rows: row + 1 };
}
