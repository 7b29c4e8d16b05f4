import { useMemo } from "preact/hooks";
import type { Source } from "../api/source";
import type { RunData } from "../api/types";
import { DensityBand } from "../charts/density-band";
import { decodeDistribution } from "../charts/distribution";
import { Ridge } from "../charts/ridge";
import { Problem } from "../frame/problem";
import type { Range } from "../time/range";
import { useAnswer } from "../use";
import { Casts } from "./casts";
import type { Series } from "./series";

/** The greatest number of histograms; the server merges more. */
const COLUMNS = 80;

/** The watch that records histograms, by kind. Other kinds have no histograms. */
const WATCHES: Readonly<Record<string, string>> = {
  gradient: "gradients",
  applied_gradient: "applied_gradients",
  weight: "weights",
  update: "updates",
  output: "outputs",
  output_gradient: "output_gradients",
};

interface DistributionProps {
  source: Source;
  run: RunData;
  series: Series;
  name: readonly string[];
  range: Range | null;
  onZoom: (range: Range | null) => void;
  sync: string;
}

/** The distribution of a site's elements over time, or how to record it. */
export function SiteDistribution(props: DistributionProps) {
  const { kind, path, histogram_steps: steps } = props.series.about;
  if (steps.length > 0) return <Distributions {...props} />;
  const watch = WATCHES[kind];
  if (watch === undefined) return null;
  return (
    <section class="site-hint" aria-label="Distribution over time">
      <h3>Distribution over time</h3>
      <p>No histograms were recorded. Record them with histogram=True:</p>
      <pre>
        <code>{`gradwatch.Monitor(watch=[gradwatch.${watch}(${JSON.stringify(path)}, histogram=True)])`}</code>
      </pre>
    </section>
  );
}

function Distributions({ source, run, series, name, range, onZoom, sync }: DistributionProps) {
  const { kind, path, histogram_steps: steps } = series.about;
  const { data, error } = useAnswer(
    (signal) =>
      source.distribution(
        run.id,
        { kind, path },
        { columns: COLUMNS, from: range?.from, to: range?.to },
        signal,
      ),
    // Requested again when there are new histograms, not with every step.
    [source, steps.length, range],
    JSON.stringify([run.id, kind, path]),
  );
  const distribution = useMemo(() => (data ? decodeDistribution(data) : null), [data]);
  const unit = run.kinds
    .find((one) => one.kind === kind)
    ?.statistics.find((one) => one.name === "mean")?.unit;
  const label = unit ? `value of an element (${unit})` : "value of an element";
  if (error) return <Problem error={error} />;
  if (!data || distribution === null) return null;
  return (
    <>
      <DensityBand {...{ run, name, range, onZoom, sync }} data={distribution} unit={unit ?? ""} />
      <Ridge data={distribution} unit={label} name={name} />
      <Casts casts={data.casts} step={data.steps.at(-1) ?? 0} />
    </>
  );
}
