/** A part of the time axis, in steps; `to` is its end, after the last step. */
export interface Range {
  from: number;
  to: number;
}

/** The least number of steps in a range. */
const CLOSEST = 4;

/** Zooms around a step; a `factor` below 1 shows less. The result is inside of `full`. */
export function zoomed(range: Range, full: Range, factor: number, around: number): Range {
  const span = Math.min(full.to - full.from, Math.max(CLOSEST, (range.to - range.from) * factor));
  const share = (around - range.from) / (range.to - range.from);
  return within({ from: around - share * span, to: around + (1 - share) * span }, full);
}

export function panned(range: Range, full: Range, steps: number): Range {
  return within({ from: range.from + steps, to: range.to + steps }, full);
}

/** The range between two steps in any order; null if it is empty. */
export function selected(a: number, b: number, full: Range): Range | null {
  const from = Math.floor(Math.min(a, b));
  const to = Math.ceil(Math.max(a, b));
  return to - from < 1 ? null : within({ from, to: Math.max(to, from + CLOSEST) }, full);
}

/** Moves a range into another, and cuts it if it is longer. */
export function within(range: Range, full: Range): Range {
  const span = Math.min(range.to - range.from, full.to - full.from);
  const from = Math.min(Math.max(range.from, full.from), full.to - span);
  return { from, to: from + span };
}

export function same(a: Range, b: Range): boolean {
  return a.from === b.from && a.to === b.to;
}

/** Converts steps to pixels of a plot, and pixels to steps. */
export interface TimeScale {
  range: Range;
  width: number;
  x(step: number): number;
  step(x: number): number;
}

export function timeScale(range: Range, width: number): TimeScale {
  const span = Math.max(range.to - range.from, 1e-9);
  return {
    range,
    width,
    x: (step) => ((step - range.from) / span) * width,
    step: (x) => range.from + (x / Math.max(width, 1)) * span,
  };
}

/** All steps of a run. */
export function wholeRange(run: { first_step: number | null; last_step: number | null }): Range {
  const first = run.first_step ?? 0;
  return { from: first, to: (run.last_step ?? first) + 1 };
}
