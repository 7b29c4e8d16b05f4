/** What a line chart shows, apart from how: drawn on the screen, as SVG and as a table. */

/** A colour by its name in theme.css, without the dashes before it. */
export type Colour = `series-${1 | 2 | 3 | 4 | 5 | 6 | 7 | 8}` | "ink" | "muted" | "nonfinite";

export interface Line {
  name: string;
  /** One for each position. NaN is a gap; undefined: the line has no point there and goes on. */
  values: ArrayLike<number | undefined>;
  colour: Colour;
  dashed?: boolean;
}

/** The area between two lines. */
export interface Band {
  name: string;
  low: ArrayLike<number>;
  high: ArrayLike<number>;
  colour: Colour;
  opacity: number;
}

/** A horizontal line at a value that means something. */
export interface Rule {
  value: number;
  label: string;
}

/** A place where something cannot be drawn as a point, such as elements that are not finite. */
export interface Mark {
  index: number;
  text: string;
}

export interface Axis {
  /** "step", or what else is counted. */
  label: string;
  /** Where each column is drawn; ascending. */
  position: Float64Array;
  /** What to call a column in the read-out: "steps 12–24". */
  name(index: number): string;
  /** The columns of a table that tell where a row belongs. */
  head: string[];
  cells(index: number): (number | string)[];
  /** Places to mark, such as where epochs begin. */
  sections: { position: number; label: string }[];
  /** Whether positions are whole numbers. */
  whole: boolean;
}

export interface LineModel {
  title: string;
  /** What the values are, for the axis. */
  unit: string;
  axis: Axis;
  lines: Line[];
  bands?: Band[];
  rules?: Rule[];
  marks?: Mark[];
  /** Values that the axis must contain, such as 0. */
  include?: number[];
  /** How to write a value in the read-out. */
  format?: (value: number) => string;
}

const COLOURS = 8;

/** The colour of the n-th of several series. */
export function seriesColour(index: number): Colour {
  return `series-${(index % COLOURS) + 1}` as Colour;
}
