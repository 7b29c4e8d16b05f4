import { decodeDoubles } from "../api/doubles";
import type { DistributionData } from "../api/types";

/** Decoded histograms over time. */
export interface Distribution {
  steps: readonly number[];
  levels: readonly number[];
  /** Steps by levels. */
  quantiles: Float64Array;
  /** The borders of the bins: one more than bins. */
  edges: Float64Array;
  /** Steps by bins. */
  shares: Float64Array;
}

export function decodeDistribution(data: DistributionData): Distribution {
  return {
    steps: data.steps,
    levels: data.levels,
    quantiles: decodeDoubles(data.quantiles),
    edges: decodeDoubles(data.edges),
    shares: decodeDoubles(data.shares),
  };
}

export function binCount({ edges }: Distribution): number {
  return Math.max(0, edges.length - 1);
}

export function share(data: Distribution, step: number, bin: number): number {
  return data.shares[step * binCount(data) + bin] ?? Number.NaN;
}

/** One quantile over all steps. */
export function quantile(data: Distribution, level: number): Float64Array {
  const { levels, quantiles, steps } = data;
  return Float64Array.from(steps, (_, i) => quantiles[i * levels.length + level] ?? Number.NaN);
}
