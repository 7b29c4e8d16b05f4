import type { Interval } from "./scale";

/** The content of a line chart, for the screen, for exports and for tables. */

/** The name of a colour in theme.css, without the leading dashes. */
export type Colour = `series-${1 | 2 | 3 | 4 | 5 | 6 | 7 | 8}` | "ink" | "muted" | "nonfinite";

export interface Line {
  name: string;
  /** One value for each position. NaN is a gap; at undefined the line continues without a point. */
  values: ArrayLike<number | undefined>;
  colour: Colour;
  dashed?: boolean;
  /** The values before they were smoothed, as a faint line behind. */
  raw?: ArrayLike<number | undefined>;
}

/** The opacity of raw values. */
export const FAINT = 0.3;

/** The area between two lines. */
export interface Band {
  name: string;
  low: ArrayLike<number>;
  high: ArrayLike<number>;
  colour: Colour;
  opacity: number;
}

/** A horizontal line at a value with a meaning. */
export interface Rule {
  value: number;
  label: string;
}

/** A position with something that has no point, such as elements that are not finite. */
export interface Mark {
  index: number;
  text: string;
}

export interface Axis {
  /** The label of the axis, such as "step". */
  label: string;
  /** The position of each column; ascending. */
  position: Float64Array;
  /** The name of a column in the read-out: "steps 12 – 24". */
  name(index: number): string;
  /** The names of the table columns that contain the position. */
  head: string[];
  cells(index: number): (number | string)[];
  /** Where the axis begins and ends; by default at the first and the last column. */
  limits?: Interval;
  /** Positions to mark, such as the beginnings of epochs. */
  sections: { position: number; label: string }[];
  /** Whether positions are whole numbers. */
  whole: boolean;
}

export interface LineModel {
  title: string;
  /** The unit of the values, for the axis. */
  unit: string;
  axis: Axis;
  lines: Line[];
  bands?: Band[];
  rules?: Rule[];
  marks?: Mark[];
  /** Values that the axis must contain, such as 0. */
  include?: number[];
  /** Formats a value for the read-out. */
  format?: (value: number) => string;
}

const COLOURS = 8;

/** The colour of the n-th of several series. */
export function seriesColour(index: number): Colour {
  return `series-${(index % COLOURS) + 1}` as Colour;
}
