import type { Point } from "./scene";

/** Where positions and values lie in a plot, in CSS pixels. */
export interface Projection {
  px: (position: number) => number;
  py: (value: number) => number;
}

/** The pieces of a line between its gaps. */
export function linePieces(
  position: Float64Array,
  values: ArrayLike<number | undefined>,
  { px, py }: Projection,
): Point[][] {
  const pieces: Point[][] = [];
  let piece: Point[] = [];
  for (let i = 0; i < position.length; i++) {
    const value = values[i];
    if (value === undefined) continue;
    const y = py(value);
    if (!Number.isFinite(y)) {
      piece = [];
      continue;
    }
    if (piece.length === 0) pieces.push(piece);
    piece.push([px(position[i] ?? 0), y]);
  }
  return pieces;
}

/** The areas between two lines, where both have a value. */
export function bandAreas(
  position: Float64Array,
  low: ArrayLike<number>,
  high: ArrayLike<number>,
  plot: Projection,
): Point[][] {
  const both = (i: number) =>
    Number.isFinite(plot.py(low[i] ?? Number.NaN) + plot.py(high[i] ?? Number.NaN));
  const where = (values: ArrayLike<number>) =>
    linePieces(
      position,
      Array.from(position, (_, i) => (both(i) ? values[i] : Number.NaN)),
      plot,
    );
  const lower = where(low);
  return where(high).map((upper, i) => [...upper, ...[...(lower[i] ?? [])].reverse()]);
}
