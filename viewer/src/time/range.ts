/** A part of the time axis, in steps; `to` is where it ends, just after the last step. */
export interface Range {
  from: number;
  to: number;
}

/** The fewest steps that can be looked at. */
const CLOSEST = 4;

/** The range zoomed around a step: `factor` below 1 shows less. It stays within `full`. */
export function zoomed(range: Range, full: Range, factor: number, around: number): Range {
  const span = Math.min(full.to - full.from, Math.max(CLOSEST, (range.to - range.from) * factor));
  const share = (around - range.from) / (range.to - range.from);
  return within({ from: around - share * span, to: around + (1 - share) * span }, full);
}

export function panned(range: Range, full: Range, steps: number): Range {
  return within({ from: range.from + steps, to: range.to + steps }, full);
}

/** The range between two steps, however they are ordered, if it is worth looking at. */
export function selected(a: number, b: number, full: Range): Range | null {
  const from = Math.floor(Math.min(a, b));
  const to = Math.ceil(Math.max(a, b));
  return to - from < 1 ? null : within({ from, to: Math.max(to, from + CLOSEST) }, full);
}

/** The range moved, and if need be cut, to lie inside of another. */
export function within(range: Range, full: Range): Range {
  const span = Math.min(range.to - range.from, full.to - full.from);
  const from = Math.min(Math.max(range.from, full.from), full.to - span);
  return { from, to: from + span };
}

export function same(a: Range, b: Range): boolean {
  return a.from === b.from && a.to === b.to;
}

/** Pixels of steps in a plot of some width, and back. */
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
export function wholeRange(run: {
  first_step: number | null;
  last_step: number | null;
  steps: number;
}): Range {
  const first = run.first_step ?? 0;
  const last = run.last_step ?? first;
  // A value stands until the next is measured; so does the last.
  const usual = run.steps > 1 ? Math.ceil((last - first) / (run.steps - 1)) : 1;
  return { from: first, to: last + Math.max(1, usual) };
}
