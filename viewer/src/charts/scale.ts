/** Intervals, scales and ticks of axes. */

export type ScaleKind = "linear" | "log";

export interface Interval {
  low: number;
  high: number;
}

/** The least and the greatest of the finite numbers; null if there are none. */
export function extent(values: Iterable<number | undefined>, positive = false): Interval | null {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    if (value === undefined || !Number.isFinite(value) || (positive && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? { low, high } : null;
}

/** An interval with some space at both ends, so that no line touches the edge. */
export function padded(seen: Interval | null, kind: ScaleKind): Interval {
  if (seen === null) return kind === "log" ? { low: 0.1, high: 1 } : { low: 0, high: 1 };
  const { low, high } = seen;
  if (kind === "log") {
    const factor = low === high ? 2 : (high / low) ** 0.06;
    return { low: Math.max(low / factor, Number.MIN_VALUE), high: Math.min(high * factor, 1e308) };
  }
  const room = low === high ? Math.abs(low) / 2 || 1 : (high - low) * 0.06;
  // Values that are never negative have no axis below 0.
  return { low: low >= 0 && low - room < 0 ? Math.min(0, low) : low - room, high: high + room };
}

/** The place of a value in an interval: 0 at low, 1 at high. */
export function placed(value: number, { low, high }: Interval, kind: ScaleKind): number {
  if (kind === "log")
    return (Math.log10(value) - Math.log10(low)) / (Math.log10(high) - Math.log10(low));
  return (value - low) / (high - low);
}

/** Round numbers across an interval, about `count` of them. */
export function ticks(interval: Interval, kind: ScaleKind, count: number): number[] {
  return kind === "log" ? logTicks(interval, count) : linearTicks(interval, count);
}

/** Ticks of steps, which are whole numbers. */
export function stepTicks(interval: Interval, count: number): number[] {
  return linearTicks(interval, count).filter(Number.isInteger);
}

function linearTicks({ low, high }: Interval, count: number): number[] {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const nice = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) ?? 10;
  const gap = nice * power;
  const found: number[] = [];
  for (let i = Math.ceil(low / gap - 1e-9); i * gap <= high + gap * 1e-9; i++)
    // Further digits are rounding errors.
    found.push(Number((i * gap).toPrecision(12)));
  return found;
}

function logTicks(interval: Interval, count: number): number[] {
  const first = Math.ceil(Math.log10(interval.low) - 1e-9);
  const last = Math.floor(Math.log10(interval.high) + 1e-9);
  const decades = last - first + 1;
  if (decades >= 3) {
    const every = Math.ceil(decades / count);
    const found: number[] = [];
    for (let power = first; power <= last; power++)
      if (power % every === 0) found.push(Number(`1e${power}`));
    return found;
  }
  const found: number[] = [];
  for (let power = first - 1; power <= last; power++)
    for (const factor of [1, 2, 5]) {
      const tick = Number(`${factor}e${power}`);
      if (tick >= interval.low && tick <= interval.high) found.push(tick);
    }
  return found.length >= 2 ? found : linearTicks(interval, count);
}
