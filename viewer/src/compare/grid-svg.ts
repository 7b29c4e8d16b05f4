import { tickTexts } from "../charts/numbers";
import { stepTicks, ticks } from "../charts/scale";
import { element, picture, shortened, text } from "../charts/svg";
import { colour } from "../theme";
import type { Comparison, Measure } from "./comparison";
import { AXIS, endOf, fittingPath, gridLayout, ROW } from "./grid-layout";
import { legendTicks, shade } from "./shades";

const WIDTH = 1000;
const TOP = 66;
/** Cells touch: smoothed edges would show as lines between them. */
const CRISP = { "shape-rendering": "crispEdges" };
const LEGEND = { left: 620, width: 340, top: 16, height: 10 };

/** The heatmap of differences as a whole SVG document, with all of its rows. */
export function gridSvg(
  comparison: Comparison,
  far: Float64Array,
  limit: number,
  measure: Measure,
  heading: string,
  legend: string,
): string {
  const { paths, align } = comparison.about;
  const layout = gridLayout(comparison, WIDTH);
  const bottom = TOP + paths.length * ROW;
  const rows = paths.map((path, row) =>
    text(layout.left - 8, TOP + row * ROW + 11, fittingPath(path, layout.left - 10), {
      "text-anchor": "end",
    }).concat(element("g", CRISP, rowCells(row, far, limit, layout.borders))),
  );
  const interval = { low: comparison.position[0] ?? 0, high: endOf(comparison.position) };
  const found = align === "step" ? stepTicks(interval, 8) : ticks(interval, "linear", 8);
  const texts = tickTexts(found);
  const axis = found.map((tick, i) => {
    const part = (tick - interval.low) / (interval.high - interval.low || 1);
    const x = layout.left + part * (layout.right - layout.left);
    return text(x, bottom + 14, texts[i] ?? "", { "text-anchor": "middle" });
  });
  const content = [
    text(12, 24, shortened(heading, 70), {
      fill: colour("--ink"),
      "font-size": 13,
      "font-weight": 600,
    }),
    legendSvg(limit, measure, legend),
    ...rows,
    ...axis,
    text(
      (layout.left + layout.right) / 2,
      bottom + 29,
      align === "step" ? "step" : "share of training",
      {
        "text-anchor": "middle",
      },
    ),
  ];
  return picture(WIDTH, bottom + AXIS, heading, content.join(""));
}

/** A row's cells; neighbours of one colour are one rectangle. */
function rowCells(row: number, far: Float64Array, limit: number, borders: Float64Array): string {
  const columns = borders.length - 1;
  const cells: string[] = [];
  let start = 0;
  const shadeAt = (column: number) => shade(far[row * columns + column] ?? Number.NaN, limit);
  for (let column = 1; column <= columns; column++) {
    const fill = shadeAt(start);
    if (column < columns && shadeAt(column) === fill) continue;
    const x = borders[start] ?? 0;
    const width = (borders[column] ?? 0) - x;
    if (fill) cells.push(element("rect", { x, y: TOP + row * ROW, width, height: ROW - 1, fill }));
    start = column;
  }
  return cells.join("");
}

function legendSvg(limit: number, measure: Measure, label: string): string {
  const { left, width, top, height } = LEGEND;
  const pieces = 60;
  const bar = Array.from({ length: pieces }, (_, i) =>
    element("rect", {
      x: left + (i / pieces) * width,
      y: top,
      width: width / pieces + 0.5,
      height,
      fill: shade((((i + 0.5) / pieces) * 2 - 1) * limit, limit) ?? "none",
    }),
  );
  const marks = legendTicks(limit, measure).map(({ at, text: mark }) =>
    text(left + ((at / limit + 1) / 2) * width, top + height + 13, mark, {
      "text-anchor": "middle",
    }),
  );
  return [
    ...bar,
    ...marks,
    text(left + width, top - 5, shortened(label, 90), { "text-anchor": "end" }),
  ].join("");
}
