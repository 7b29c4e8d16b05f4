import { useMemo } from "preact/hooks";
import { decodeDoubles } from "../api/doubles";
import type { CompareSeriesRequest, Source } from "../api/source";
import type { ComparedSeries, StatisticData } from "../api/types";
import { positionAxis } from "../charts/axes";
import { LineChart } from "../charts/line-chart";
import { type LineModel, seriesColour } from "../charts/model";
import type { ScaleKind } from "../charts/scale";
import { exact } from "../format";
import { Problem } from "../frame/problem";
import type { Range } from "../time/range";
import { useAnswer } from "../use";

const COLUMNS = 600;

interface OverlayProps {
  source: Source;
  /** The ids of the runs, in the order of their colours. */
  runs: string[];
  names: readonly string[];
  request: Omit<CompareSeriesRequest, "columns">;
  statistic: StatisticData | undefined;
  changes: number;
  scale: ScaleKind | null;
  onScale: (scale: ScaleKind) => void;
  range: Range | null;
  onZoom: (range: Range | null) => void;
}

/** A chart of one layer or tensor of all runs. */
export function Overlay(props: OverlayProps) {
  const { source, runs, names, request, statistic, changes, range, onZoom, onScale } = props;
  const identity = JSON.stringify([runs, request]);
  const { data, error } = useAnswer(
    (signal) => source.compareSeries(runs, { ...request, columns: COLUMNS }, signal),
    [source],
    identity,
    changes,
  );
  const model = useMemo(
    () => (data ? overlayModel(data, runs, statistic) : null),
    [data, statistic],
  );
  if (error) return <Problem error={error} />;
  if (model === null || data === null) return <div class="compare-overlay" />;
  const lacking = names.filter((_, i) => !data.runs.some(({ id }) => id === runs[i]));
  return (
    <div class="compare-overlay">
      <LineChart
        model={model}
        name={[data.kind, data.statistic]}
        note={lacking.length > 0 ? `missing in ${lacking.join(", ")}` : ""}
        height={240}
        scale={props.scale ?? (statistic?.scale === "log" ? "log" : "linear")}
        onScale={onScale}
        range={range}
        onZoom={onZoom}
      />
    </div>
  );
}

function overlayModel(
  data: ComparedSeries,
  ids: readonly string[],
  statistic: StatisticData | undefined,
): LineModel {
  const runs = data.runs.map(({ id, name, position, values }) => ({
    name,
    colour: seriesColour(ids.indexOf(id)),
    points: pointsOf(decodeDoubles(position), decodeDoubles(values)),
  }));
  const position = Float64Array.from(
    new Set(runs.flatMap(({ points }) => [...points.keys()])),
  ).sort();
  const label = statistic?.label ?? data.statistic;
  const marks = Array.from(position, (at, index) => ({
    index,
    text: runs
      .filter(({ points }) => points.has(at) && !Number.isFinite(points.get(at)))
      .map(({ name, points }) => `${name} is ${exact(points.get(at) ?? Number.NaN)}`)
      .join(", "),
  })).filter(({ text }) => text !== "");
  return {
    title: data.path,
    marks,
    unit: statistic?.unit ? `${label}, ${statistic.unit}` : label,
    axis: positionAxis(position, data.align),
    lines: runs.map(({ name, colour, points }) => ({
      name,
      colour,
      values: Array.from(position, (at) => points.get(at)),
    })),
  };
}

function pointsOf(position: Float64Array, values: Float64Array): Map<number, number> {
  return new Map(Array.from(position, (at, i) => [at, values[i] ?? Number.NaN]));
}
