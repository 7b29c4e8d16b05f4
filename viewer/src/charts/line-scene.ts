import { shortened } from "../format";
import { axisTicks, bottomAxis, heading } from "./frame";
import {
  belowLog,
  fittingSections,
  rawLines,
  shownBands,
  shownLines,
  type View,
  visiblePositions,
  visibleValues,
} from "./line-layout";
import { FAINT, type LineModel } from "./model";
import { tickTexts } from "./numbers";
import { bandAreas, linePieces, type Projection } from "./pieces";
import { placed, stepTicks, ticks } from "./scale";
import { type Box, group, line, type Picture, type Point, rect, type Shape, text } from "./scene";

/** The plot of a line chart, in CSS pixels, and where positions and values lie in it. */
export type Plot = Box & Projection;

/** The size of a mark, and the least distance of two marks of a line. */
const MARK = 4;
const MARK_ROOM = 9;

/** What lies under the lines: the beginnings of epochs, and values with a meaning. */
export function underScene({ axis, rules = [] }: LineModel, plot: Plot): Shape[] {
  const { x, y, width, height } = plot;
  const place = (position: number) => plot.px(position) - x;
  return [
    ...fittingSections(axis.sections, place, width).flatMap(({ at, label }) => [
      line([x + at, y], [x + at, y + height], "--line", [2, 3]),
      text(x + at, y - 4, label, { fill: "--faint", size: 10 }),
    ]),
    ...rules.flatMap(({ value, label }) => [
      line([x, plot.py(value)], [x + width, plot.py(value)], "--muted", [6, 4]),
      text(x + width - 4, plot.py(value) - 4, label, { align: "right" }),
    ]),
  ];
}

/** What lies over the lines: crosses at NaN or Inf, triangles at zeros that a log scale lacks. */
export function overScene(model: LineModel, view: View, plot: Plot): Shape[] {
  const { x, y, width, height } = plot;
  const place = (index: number) => plot.px(model.axis.position[index] ?? 0);
  const marks: Shape[] = [];
  let end = { line: -1, at: 0 };
  for (const { line: of, index } of belowLog(model, view)) {
    const at = place(index);
    // Marks that follow each other closely would overlap.
    if (of === end.line && at < end.at + MARK_ROOM) continue;
    end = { line: of, at };
    marks.push({
      type: "path",
      lines: [triangle(at, y + height - 2)],
      closed: true,
      stroke: `--${model.lines[of]?.colour ?? "ink"}`,
    });
  }
  for (const { index } of model.marks ?? [])
    marks.push({
      type: "path",
      lines: cross(place(index), y + 6),
      stroke: "--nonfinite",
      width: 2,
    });
  // Marks at the first and the last position are shown whole.
  return [group(0, 0, marks, { x: x - MARK - 1, y, width: width + 2 * MARK + 2, height })];
}

const WIDTH = 900;
const HEIGHT = 354;
const PLOT: Box = { x: 74, y: 48, width: 806, height: 240 };
const LEGEND_ROW = 16;

/** A line chart with its axes and its legend: the export. */
export function linePicture(model: LineModel, view: View, title: string): Picture {
  const positions = visiblePositions(model, view);
  const values = visibleValues(model, view);
  const { x, y, width, height } = PLOT;
  const plot: Plot = {
    ...PLOT,
    px: (position) => x + placed(position, positions, "linear") * width,
    py: (value) => y + (1 - placed(value, values, view.scale)) * height,
  };
  const xTicks = model.axis.whole ? stepTicks(positions, 8) : ticks(positions, "linear", 8);
  const yTicks = ticks(values, view.scale, 6);
  const bottom = y + height;
  const legend = legendShapes(model, view);
  return {
    width: WIDTH,
    height: HEIGHT + (legend.rows - 1) * LEGEND_ROW,
    title,
    scene: [
      heading(x, title),
      ...axisTicks(yTicks, tickTexts(yTicks), plot.py).flatMap(({ at, text: content }) => [
        line([x, at], [x + width, at], "--grid"),
        text(x - 8, at + 4, content, { align: "right" }),
      ]),
      line([x, bottom], [x + width, bottom], "--line"),
      ...bottomAxis(axisTicks(xTicks, tickTexts(xTicks), plot.px), model.axis.label, {
        left: x,
        right: x + width,
        top: bottom,
      }),
      text(14, y + height / 2, unitText(model.unit, view), { align: "center", upwards: true }),
      ...underScene(model, plot),
      group(0, 0, dataShapes(model, view, plot), PLOT),
      ...overScene(model, view, plot),
      ...legend.shapes,
    ],
  };
}

export function unitText(unit: string, { scale }: View): string {
  if (scale !== "log") return unit;
  return unit === "" ? "log scale" : `${unit} (log)`;
}

function dataShapes(model: LineModel, view: View, plot: Plot): Shape[] {
  const { position } = model.axis;
  return [
    ...shownBands(model, view).map(
      ({ low, high, colour, opacity }): Shape => ({
        type: "path",
        lines: bandAreas(position, low, high, plot),
        closed: true,
        fill: `--${colour}`,
        fillOpacity: opacity,
      }),
    ),
    ...rawLines(model, view).map(
      ({ raw, colour }): Shape => ({
        type: "path",
        lines: linePieces(position, raw, plot),
        stroke: `--${colour}`,
        strokeOpacity: FAINT,
      }),
    ),
    ...shownLines(model, view).map(
      ({ values, colour, dashed }): Shape => ({
        type: "path",
        lines: linePieces(position, values, plot),
        stroke: `--${colour}`,
        width: 1.5,
        ...(dashed && { dash: [5, 3] }),
      }),
    ),
  ];
}

function cross(x: number, y: number): Point[][] {
  return [
    [
      [x - MARK, y - MARK],
      [x + MARK, y + MARK],
    ],
    [
      [x - MARK, y + MARK],
      [x + MARK, y - MARK],
    ],
  ];
}

/** A triangle that points down, out of the chart. */
function triangle(x: number, y: number): Point[] {
  return [
    [x - MARK, y - 1.5 * MARK],
    [x + MARK, y - 1.5 * MARK],
    [x, y],
  ];
}

/** The names of lines and bands, in as many rows as they need. */
function legendShapes(model: LineModel, view: View): { shapes: Shape[]; rows: number } {
  let x = PLOT.x;
  let row = 0;
  const items = [
    ...shownLines(model, view).map((one) => ({ ...one, opacity: 1 })),
    ...shownBands(model, view),
  ];
  const shapes = items.flatMap(({ name, colour, opacity }) => {
    const label = shortened(name, 60);
    const width = 34 + label.length * 6;
    if (x > PLOT.x && x + width > WIDTH) {
      x = PLOT.x;
      row++;
    }
    const y = HEIGHT - 10 + row * LEGEND_ROW;
    const key = { x, y: y - 8, width: 12, height: opacity < 1 ? 8 : 3 };
    x += width;
    return [rect(key, `--${colour}`, opacity), text(key.x + 17, y, label)];
  });
  return { shapes, rows: row + 1 };
}
