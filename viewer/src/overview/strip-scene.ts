import { heldSpans } from "../cells/spans";
import { AXIS_HEIGHT, axisTicks, bottomAxis, heading } from "../charts/frame";
import { seriesColour } from "../charts/model";
import { bandAreas, linePieces, type Projection } from "../charts/pieces";
import { stepTicks } from "../charts/scale";
import { line, group as moved, type Picture, rect, type Shape, text } from "../charts/scene";
import { count } from "../format";
import { type Range, type TimeScale, timeScale } from "../time/range";
import { type NumberGroup, type NumberSeries, nameOf } from "./numbers";
import { middle, type StripLayout, stripLayout, tickLabels } from "./strip-layout";

/** The least width of the mark of a value that is not finite. */
const LEAST = 3;
/** The size of a point between two gaps. */
const DOT = 3;

/** The lines of a group of numbers, with the range of their ranks and marks of NaN or Inf. */
export function stripScene(
  group: NumberGroup,
  scale: TimeScale,
  layout: StripLayout,
  { height, end }: { height: number; end: number },
): Shape[] {
  const grid = layout.ticks.map((tick) => Math.round(layout.y(tick)) + 0.5);
  return [
    ...grid.map((y) => line([0, y], [scale.width, y], "--grid")),
    ...group.series.flatMap((series, i) => [
      ...seriesShapes(series, `--${seriesColour(i)}`, { px: scale.x, py: layout.y }),
      ...nonfiniteMarks(series, scale, end).map(({ x, width }) =>
        rect({ x, y: 0, width, height }, "--nonfinite"),
      ),
    ]),
  ];
}

function seriesShapes(series: NumberSeries, colour: string, projection: Projection): Shape[] {
  const { values, ranks } = series;
  const position = Float64Array.from(values, (_, column) => middle(series, column) + 0.5);
  const lines = linePieces(position, values, projection);
  const band: Shape[] = ranks
    ? [
        {
          type: "path",
          lines: bandAreas(position, ranks.low, ranks.high, projection),
          closed: true,
          fill: colour,
          fillOpacity: 0.2,
        },
        {
          type: "path",
          lines: linePieces(position, ranks.median, projection),
          stroke: colour,
          strokeOpacity: 0.8,
          dash: [1, 3],
        },
      ]
    : [];
  const dots = lines
    .filter(({ length }) => length === 1)
    .flatMap((piece) => piece.map(([x, y]) => ({ x: x - DOT / 2, y: y - DOT / 2 })));
  return [
    ...band,
    { type: "path", lines, stroke: colour, width: 1.5 },
    ...dots.map((at) => rect({ ...at, width: DOT, height: DOT }, colour)),
  ];
}

/** Where the value is not finite, in whole pixels, so that neighbours touch. */
export function nonfiniteMarks(
  { first, values }: Pick<NumberSeries, "first" | "values">,
  scale: TimeScale,
  end: number,
): { x: number; width: number }[] {
  const nonfinite = (column: number) => !Number.isFinite(values[column]);
  return [...heldSpans({ columns: { first, end }, values, nonfinite })].flatMap((span) => {
    const left = Math.floor(scale.x(span.begin));
    const right = Math.ceil(scale.x(span.end));
    if (!nonfinite(span.column) || right < 0 || left > scale.width) return [];
    return [{ x: left, width: Math.max(LEAST, right - left) }];
  });
}

const LEFT = 190;
const WIDTH = 820;
const HEIGHT = 110;
const GAP = 16;
const TOP = 30;

/** The charts of several groups below each other: the export. `end` is that of the run. */
export function stripsPicture(
  title: string,
  groups: readonly NumberGroup[],
  range: Range,
  end: number,
): Picture {
  const scale = timeScale(range, WIDTH);
  const bottom = TOP + groups.length * (HEIGHT + GAP) - GAP;
  const steps = stepTicks({ low: range.from, high: range.to }, 8);
  const ticks = axisTicks(steps, steps.map(count), (tick) => LEFT + scale.x(tick + 0.5));
  return {
    width: LEFT + WIDTH + 16,
    height: bottom + AXIS_HEIGHT + 8,
    title,
    scene: [
      heading(12, title),
      ...groups.flatMap((group, i) => stripShapes(group, scale, TOP + i * (HEIGHT + GAP), end)),
      ...bottomAxis(ticks, "step", { left: LEFT, right: LEFT + WIDTH, top: bottom }),
    ],
  };
}

function stripShapes(group: NumberGroup, scale: TimeScale, top: number, end: number): Shape[] {
  const layout = stripLayout(group, scale, HEIGHT);
  return [
    ...axisTicks(layout.ticks, tickLabels(layout), layout.y).map(({ at, text: label }) =>
      text(LEFT - 6, top + at + 4, label, { align: "right" }),
    ),
    ...group.series.map((series, i) =>
      text(12, top + 14 + i * 15, nameOf(series).slice(0, 24), { fill: `--${seriesColour(i)}` }),
    ),
    moved(LEFT, top, stripScene(group, scale, layout, { height: HEIGHT, end }), {
      x: 0,
      y: 0,
      width: WIDTH,
      height: HEIGHT,
    }),
  ];
}
