const MOVES: Readonly<Record<string, readonly [row: number, column: number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** The cell that an arrow key leads to, inside of a grid; null for other keys. */
export function arrowMove(
  key: string,
  from: { row: number; column: number },
  size: { rows: number; columns: number },
): { row: number; column: number } | null {
  const way = MOVES[key];
  if (way === undefined) return null;
  return {
    row: clamped(from.row + way[0], 0, size.rows - 1),
    column: clamped(from.column + way[1], 0, size.columns - 1),
  };
}

function clamped(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, value));
}
