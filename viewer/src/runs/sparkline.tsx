import { fromJson } from "../api/doubles";
import type { JsonNumber } from "../api/types";
import { short } from "../format";

const WIDTH = 84;
const HEIGHT = 20;
const EDGE = 2;

/** The course of a loss as a small line, with a dot where it was last not finite. */
export function Sparkline({ values }: { values: readonly JsonNumber[] | null }) {
  if (values === null || values.length === 0) return null;
  const numbers = values.map(fromJson);
  const { path, bad } = sparkPath(numbers);
  const finite = numbers.filter(Number.isFinite);
  const [first, last] = [numbers[0] ?? Number.NaN, numbers.at(-1) ?? Number.NaN];
  const words = finite.length === 0 ? "not finite" : `loss from ${short(first)} to ${short(last)}`;
  return (
    <svg
      class="sparkline"
      width={WIDTH}
      height={HEIGHT}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={words}
    >
      <title>{words}</title>
      <path d={path} />
      {bad.map((x) => (
        <circle key={x} cx={x} cy={EDGE + 2} r={2} />
      ))}
    </svg>
  );
}

/** The line of the finite values, and where the stretches of other values begin. */
export function sparkPath(values: readonly number[]): { path: string; bad: number[] } {
  const finite = values.filter(Number.isFinite);
  const low = finite.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
  const high = finite.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
  const x = (i: number) => round(EDGE + (i * (WIDTH - 2 * EDGE)) / Math.max(1, values.length - 1));
  const y = (value: number) =>
    round(HEIGHT - EDGE - ((value - low) / (high - low || 1)) * (HEIGHT - 2 * EDGE));
  const bad: number[] = [];
  let path = "";
  let pen = "M";
  values.forEach((value, i) => {
    if (Number.isFinite(value)) {
      path += `${pen}${x(i)} ${y(value)}`;
      pen = "L";
      return;
    }
    if (pen === "L" || i === 0) bad.push(x(i));
    pen = "M";
  });
  // A single value is a dot: a line of no length with round ends.
  if (finite.length === 1) path += "h0";
  return { path, bad };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
