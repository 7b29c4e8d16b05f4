export interface Size {
  width: number;
  height: number;
}

/** The distance from the pointer, and the least distance from the edges of the window. */
const DISTANCE = 14;
const MARGIN = 4;

/**
 * Where a box next to the pointer begins: right of it and below, on the other side where there is
 * no room, and never outside of the window.
 */
export function beside(
  at: { x: number; y: number },
  box: Size,
  window: Size,
): { left: number; top: number } {
  return {
    left: start(at.x, box.width, window.width),
    top: start(at.y, box.height, window.height),
  };
}

function start(at: number, length: number, room: number): number {
  const after = at + DISTANCE;
  const before = at - DISTANCE - length;
  const last = room - MARGIN - length;
  if (after <= last) return after;
  return Math.max(MARGIN, before >= MARGIN ? before : last);
}
