import { shortened } from "../format";
import { line, type Shape, type TextShape, text } from "./scene";

/** What charts have in common around their plots: a heading and an axis below. */

/** Characters that a heading has room for. */
const HEADING = 110;

/** The height of `bottomAxis`. */
export const AXIS_HEIGHT = 34;

export function heading(x: number, content: string, most = HEADING): TextShape {
  return text(x, 20, shortened(content, most), { fill: "--ink", size: 13, bold: true });
}

export interface AxisTick {
  at: number;
  text: string;
}

/** The ticks of a horizontal axis with their texts, and the label of the axis below them. */
export function bottomAxis(
  ticks: readonly AxisTick[],
  label: string,
  { left, right, top }: { left: number; right: number; top: number },
): Shape[] {
  return [
    ...ticks.flatMap(({ at, text: content }) => [
      line([at, top], [at, top + 4], "--line"),
      text(at, top + 16, content, { align: "center" }),
    ]),
    text((left + right) / 2, top + 31, label, { align: "center" }),
  ];
}

/** Pairs positions in pixels with texts. */
export function axisTicks(
  ticks: readonly number[],
  texts: readonly string[],
  place: (tick: number) => number,
): AxisTick[] {
  return ticks.map((tick, i) => ({ at: place(tick), text: texts[i] ?? "" }));
}
