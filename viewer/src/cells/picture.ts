import { AXIS_HEIGHT, axisTicks, bottomAxis, heading } from "../charts/frame";
import { stepTicks } from "../charts/scale";
import { type Picture, rect, type Shape, text } from "../charts/scene";
import { count, shortened } from "../format";
import { type Range, type TimeScale, timeScale } from "../time/range";
import type { ColourScale } from "./colour-scale";
import { LEVELS } from "./colours";
import type { CellGrid } from "./grid";

/** What a picture of a cell grid shows, with all of its rows. */
export interface CellPicture {
  title: string;
  grid: CellGrid;
  /** The name of a row. */
  label: (row: number) => string;
  labelWidth: number;
  rowHeight: number;
  scale: TimeScale;
  axis: { label: string; ticks: readonly number[]; texts: readonly string[]; shift?: number };
  /** A line above the colour bar. */
  legend?: string;
  /** Colours that are not on the colour bar. */
  keys?: readonly { fill: string; label: string }[];
}

/** The key of cells that contain NaN or Inf. */
export const NONFINITE = { fill: "--nonfinite", label: "NaN or Inf" };

/** An axis of steps. A tick stands in the middle of its step. */
export function stepAxis(range: Range): Pick<CellPicture, "scale" | "axis"> {
  const ticks = stepTicks({ low: range.from, high: range.to }, 8);
  return {
    scale: timeScale(range, WIDTH),
    axis: { label: "step", ticks, texts: ticks.map(count), shift: 0.5 },
  };
}

/** The width of the cells. */
const WIDTH = 820;
const TOP = 62;
const RIGHT = 16;
const BAR = { width: 240, height: 9, top: 30 };
/** The least distance of two row labels. */
const LABEL_ROOM = 12;

/** A cell grid with its title, legend, row labels and axis: the export of all heatmaps. */
export function cellPicture(options: CellPicture): Picture {
  const { title, grid, labelWidth, rowHeight, scale, axis } = options;
  const height = grid.rows * rowHeight;
  const right = labelWidth + scale.width;
  const bottom = TOP + height;
  const every = Math.ceil(LABEL_ROOM / rowHeight);
  const labels = Array.from({ length: Math.ceil(grid.rows / every) }, (_, i) =>
    text(
      labelWidth - 8,
      TOP + i * every * rowHeight + Math.max(rowHeight, 10) / 2 + 4,
      options.label(i * every),
      { align: "right" },
    ),
  );
  const place = (tick: number) => labelWidth + scale.x(tick + (axis.shift ?? 0));
  const ticks = axisTicks(axis.ticks, axis.texts, place).filter(({ at }) => at <= right);
  return {
    width: right + RIGHT,
    height: bottom + AXIS_HEIGHT + 8,
    title,
    scene: [
      heading(12, title, options.legend ? 60 : undefined),
      ...legend(options, right - BAR.width),
      ...labels,
      {
        type: "cells",
        x: labelWidth,
        y: TOP,
        grid,
        view: { scale, rowHeight, scrolled: 0, height },
      },
      ...bottomAxis(ticks, axis.label, { left: labelWidth, right, top: bottom }),
    ],
  };
}

function legend({ grid, legend: label, keys = [] }: CellPicture, left: number): Shape[] {
  let x = left - 10;
  const named = keys.flatMap(({ fill, label: name }) => {
    x -= 34 + name.length * 6;
    return [
      rect({ x, y: BAR.top, width: 12, height: BAR.height }, fill),
      text(x + 17, BAR.top + BAR.height, name),
    ];
  });
  const above = label ? [text(left + BAR.width, 20, shortened(label, 90), { align: "right" })] : [];
  return [...colourBar(grid.colours, left), ...named, ...above];
}

function colourBar(colours: ColourScale, left: number): Shape[] {
  const step = BAR.width / LEVELS;
  return [
    ...colours.map.css.map((fill, level) =>
      // Colours overlap a little, so that no background shows between them.
      rect({ x: left + level * step, y: BAR.top, width: step + 0.3, height: BAR.height }, fill),
    ),
    ...colours
      .ticks()
      .map(({ place, label }) =>
        text(left + place * BAR.width, BAR.top + BAR.height + 12, label, { align: "center" }),
      ),
  ];
}
