import { binCount, type Distribution, share } from "./distribution";
import { tickTexts } from "./numbers";
import { ticks } from "./scale";

/** The layout of histograms over time, in CSS pixels. */
export interface RidgeLayout {
  left: number;
  right: number;
  bottom: number;
  /** The y coordinate of the base of each step's histogram. */
  baselines: number[];
  /** The x coordinates of the borders of bins. */
  borders: Float64Array;
  /** The height of a bin at a step. */
  height(step: number, bin: number): number;
  ticks: { at: number; text: string }[];
  /** The x coordinates where tails begin: outermost bins that are drawn narrower than they are. */
  tails: number[];
  /** The steps whose baselines have a label. */
  labelled: Set<number>;
}

const LEFT = 74;
const RIGHT = 12;
const BOTTOM = 40;
const LABEL_SPACE = 14;

export function ridgeLayout(data: Distribution, width: number, height: number): RidgeLayout {
  const steps = data.steps.length;
  const bins = binCount(data);
  const tallest = data.shares.reduce((most, one) => Math.max(most, one), 0) || 1;
  const plotted = height - BOTTOM;
  const peak = Math.min(plotted * 0.35, Math.max(70, (plotted / Math.max(1, steps)) * 4));
  const peaks = data.steps.map((_, i) => {
    const own = data.shares.subarray(i * bins, (i + 1) * bins);
    return (own.reduce((most, one) => Math.max(most, one), 0) / tallest) * peak;
  });
  const first = firstBaseline(peaks, plotted - 4);
  const spacing = steps > 1 ? (plotted - 4 - first) / (steps - 1) : 0;
  const baselines = data.steps.map((_, i) => 4 + first + i * spacing);
  const inner = { left: LEFT, right: width - RIGHT };
  const place = placement(data.edges, inner.left, inner.right);
  const every = Math.max(1, Math.ceil(LABEL_SPACE / Math.max(spacing, 1e-9)));
  return {
    ...inner,
    bottom: baselines[steps - 1] ?? plotted,
    baselines,
    borders: Float64Array.from({ length: bins + 1 }, (_, i) => place.border(i)),
    height: (step, bin) => (share(data, step, bin) / tallest) * peak,
    ticks: place.ticks,
    tails: place.tails,
    labelled: new Set(data.steps.map((_, i) => i).filter((i) => (steps - 1 - i) % every === 0)),
  };
}

/** The smallest y of the first baseline with which all peaks are inside of the chart. */
function firstBaseline(peaks: readonly number[], plotted: number): number {
  const last = peaks.length - 1;
  if (last < 1) return peaks[0] ?? 0;
  return peaks.slice(0, last).reduce((lowest, peak, i) => {
    const passed = i / last;
    return Math.max(lowest, (peak - passed * plotted) / (1 - passed));
  }, 0);
}

/** The step and the bin at a point of the chart; null outside of it. */
export function ridgeAt(
  layout: RidgeLayout,
  x: number,
  y: number,
): { step: number; bin: number } | null {
  const { borders, baselines } = layout;
  if (x < layout.left || x >= layout.right || baselines.length === 0) return null;
  let bin = 0;
  while (bin < borders.length - 2 && x >= (borders[bin + 1] ?? 0)) bin++;
  // The ridge at a point is that of the next baseline below.
  let step = baselines.findIndex((baseline) => y <= baseline);
  if (step < 0) step = baselines.length - 1;
  return { step, bin };
}

/** The outline of a step's histogram, from the left end of its baseline to the right end. */
export function ridgeOutline(layout: RidgeLayout, step: number): [x: number, y: number][] {
  const base = layout.baselines[step] ?? 0;
  const points: [number, number][] = [[layout.left, base]];
  for (let bin = 0; bin + 1 < layout.borders.length; bin++) {
    const height = layout.height(step, bin);
    const middle = ((layout.borders[bin] ?? 0) + (layout.borders[bin + 1] ?? 0)) / 2;
    points.push([middle, base - (Number.isFinite(height) ? height : 0)]);
  }
  points.push([layout.right, base]);
  return points;
}

/**
 * Places bins by value. The two outermost bins may be much wider, for the tails; they are drawn as
 * wide as the others, and `tails` are the borders where they begin.
 */
function placement(edges: Float64Array, left: number, right: number) {
  const bins = Math.max(1, edges.length - 1);
  const width = (i: number) => (edges[i + 1] ?? 0) - (edges[i] ?? 0);
  const usual = bins > 2 ? width(1) : width(0);
  const first = bins > 2 && width(0) > 1.5 * usual ? 1 : 0;
  const last = bins > 2 && width(bins - 1) > 1.5 * usual ? bins - 1 : bins;
  const inner = { low: edges[first] ?? 0, high: edges[last] ?? 1 };
  const pixels = (right - left) / bins;
  const innerLeft = left + first * pixels;
  const innerRight = right - (bins - last) * pixels;
  const by = (value: number) =>
    innerLeft + ((value - inner.low) / (inner.high - inner.low || 1)) * (innerRight - innerLeft);
  const border = (i: number) => {
    if (i < first) return left;
    return i > last ? right : by(edges[i] ?? inner.low);
  };
  const found = ticks(inner, "linear", (right - left) / 90);
  const texts = tickTexts(found);
  return {
    border,
    ticks: found.map((tick, i) => ({ at: by(tick), text: texts[i] ?? "" })),
    tails: [...(first > 0 ? [innerLeft] : []), ...(last < bins ? [innerRight] : [])],
  };
}
