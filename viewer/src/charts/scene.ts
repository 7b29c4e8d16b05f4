import type { CellGrid, CellView } from "../cells/grid";

/**
 * The shapes of a chart, in CSS pixels. A chart builds one scene; `drawScene` draws it on a canvas
 * and `sceneSvg` writes it as SVG. A colour is a CSS colour or a theme variable such as "--ink".
 */
export type Scene = readonly Shape[];

export type Shape = PathShape | TextShape | CellsShape | GroupShape;

export type Point = readonly [x: number, y: number];

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** One or more polylines. A polyline of a single point is drawn as a dot. */
export interface PathShape {
  type: "path";
  lines: readonly (readonly Point[])[];
  closed?: boolean;
  /** Without `fill` or `stroke` that part is not drawn. */
  fill?: string;
  fillOpacity?: number;
  stroke?: string;
  strokeOpacity?: number;
  /** The width of the stroke; 1 by default. */
  width?: number;
  /** The lengths of dashes and gaps, alternating. */
  dash?: readonly number[];
  /** Draws edges without smoothing, so that neighbouring areas touch. */
  crisp?: boolean;
}

/** A line of text; `y` is its baseline. */
export interface TextShape {
  type: "text";
  x: number;
  y: number;
  text: string;
  /** "--muted" by default. */
  fill?: string;
  size?: number;
  bold?: boolean;
  align?: "left" | "center" | "right";
  /** Rotates the text by 90 degrees, so that it reads upwards. */
  upwards?: boolean;
}

/** The visible rows of a cell grid, with the top left corner at (x, y). */
export interface CellsShape {
  type: "cells";
  x: number;
  y: number;
  grid: CellGrid;
  view: CellView;
}

/** Shapes that are moved by (x, y). `clip` is in the coordinates of the group. */
export interface GroupShape {
  type: "group";
  x: number;
  y: number;
  clip?: Box;
  content: Scene;
}

/** A scene with its size and background: what an export writes. */
export interface Picture {
  width: number;
  height: number;
  title: string;
  scene: Scene;
}

/** The text size in pixels unless a shape sets another. */
export const TEXT_SIZE = 11;

/** Resolves a colour of a scene; `theme.colour` is the one of the page. */
export type Palette = (name: string) => string;

/** Resolves theme variables once each, and passes CSS colours through. */
export function cachedPalette(palette: Palette): Palette {
  const known = new Map<string, string>();
  return (name) => {
    if (!name.startsWith("--")) return name;
    const value = known.get(name) ?? palette(name);
    known.set(name, value);
    return value;
  };
}

export function line(from: Point, to: Point, stroke: string, dash?: readonly number[]): PathShape {
  return { type: "path", lines: [[from, to]], stroke, ...(dash && { dash }) };
}

export function text(
  x: number,
  y: number,
  content: string,
  style: Omit<TextShape, "type" | "x" | "y" | "text"> = {},
): TextShape {
  return { type: "text", x, y, text: content, ...style };
}

export function rect(box: Box, fill: string, fillOpacity = 1): PathShape {
  return { type: "path", lines: [corners(box)], closed: true, fill, fillOpacity };
}

/** The corners of a box, as a line to be closed. */
export function corners({ x, y, width, height }: Box): Point[] {
  return [
    [x, y],
    [x + width, y],
    [x + width, y + height],
    [x, y + height],
  ];
}

export function group(x: number, y: number, content: Scene, clip?: Box): GroupShape {
  return { type: "group", x, y, content, ...(clip && { clip }) };
}
