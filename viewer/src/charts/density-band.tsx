import { useMemo } from "preact/hooks";
import type { RunData } from "../api/types";
import { short } from "../format";
import type { Range } from "../time/range";
import { stepAxis } from "./axes";
import { type Distribution, quantile } from "./distribution";
import { LineChart } from "./line-chart";
import type { Band, LineModel } from "./model";

interface DensityBandProps {
  data: Distribution;
  run: RunData;
  unit: string;
  name: readonly string[];
  range: Range | null;
  onZoom: (range: Range | null) => void;
  sync: string;
}

/** The quantiles of the elements over time, as nested bands around the median. */
export function DensityBand({ data, run, unit, ...rest }: DensityBandProps) {
  const model = useMemo(() => densityModel(data, run, unit), [data, run, unit]);
  return <LineChart model={model} height={220} {...rest} />;
}

function densityModel(data: Distribution, run: RunData, unit: string): LineModel {
  const { steps, levels } = data;
  const pairs = Math.floor(levels.length / 2);
  const bands = Array.from({ length: pairs }, (_, i): Band => {
    const opposite = levels.length - 1 - i;
    return {
      name: `${percentile(levels[i])}–${percentile(levels[opposite])} %`,
      low: quantile(data, i),
      high: quantile(data, opposite),
      colour: "series-1",
      // Bands overlap, so that inner bands are darker.
      opacity: 0.16 + (0.26 * i) / Math.max(1, pairs - 1),
    };
  });
  const median = levels.length % 2 === 1 ? [quantile(data, pairs)] : [];
  return {
    title: "Quantiles over time",
    unit,
    axis: stepAxis({ first: [...steps], last: [...steps] }, run),
    lines: median.map((values) => ({ name: "median", values, colour: "series-1" })),
    bands,
    format: short,
  };
}

function percentile(level = 0): string {
  return short(level * 100);
}
