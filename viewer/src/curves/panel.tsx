import { useMemo, useState } from "preact/hooks";
import type { Source } from "../api/source";
import type { RunData } from "../api/types";
import { LineChart } from "../charts/line-chart";
import { fittingScale } from "../charts/line-layout";
import { Choice } from "../frame/choice";
import { Problem } from "../frame/problem";
import { type Query, setQuery } from "../route";
import { scaleOf, scaleQuery } from "../site/state";
import type { Range } from "../time/range";
import { useAnswer } from "../use";
import { curveModel } from "./chart-model";
import { type Along, type CurveChart, chartsOf, decodeCurves, type RunCurves } from "./curves";
import "./curves.css";

const COLUMNS = 500;
/** The charts that are shown at first. */
const SHOWN = 6;
/** The smoothing at first, as in TensorBoard. */
const SMOOTHING = 0.6;

interface CurvesProps {
  source: Source;
  /** The ids of the runs, in the order of their colours. */
  runs: readonly string[];
  query: Query;
  changes: number;
  /** The epochs of a single run, to be marked. */
  epochs?: RunData["epochs"];
}

/** The losses and metrics of one or more runs. Nothing is shown of runs without any. */
export function Curves({ source, runs, query, changes, epochs }: CurvesProps) {
  const { data, error } = useAnswer(
    (signal) => source.curves(runs, COLUMNS, signal),
    [source],
    runs.join(","),
    changes,
  );
  const decoded = useMemo(() => (data ? decodeCurves(data) : []), [data]);
  const charts = useMemo(() => chartsOf(decoded), [decoded]);
  if (error) return <Problem error={error} />;
  if (charts.length === 0) return null;
  return <CurvesPanel {...{ runs: decoded, charts, query, ...(epochs && { epochs }) }} />;
}

interface PanelProps {
  runs: readonly RunCurves[];
  charts: readonly CurveChart[];
  query: Query;
  epochs?: RunData["epochs"];
}

function CurvesPanel({ runs, charts, query, epochs }: PanelProps) {
  const [all, setAll] = useState(false);
  const [range, setRange] = useState<Range | null>(null);
  const along = alongOf(query.x ?? "", runs);
  const smoothing = smoothingOf(query.smooth ?? "");
  const models = useMemo(
    () => charts.map((chart) => curveModel(chart, runs, { along, smoothing }, epochs)),
    [charts, runs, along, smoothing, epochs],
  );
  const lacking = along === "epoch" ? runs.filter(({ hasEpochs }) => !hasEpochs) : [];
  const shown = all ? models : models.slice(0, SHOWN);
  return (
    <section class="curves" aria-label="Losses and metrics">
      <div class="curves-controls">
        <h2>Losses and metrics</h2>
        <Smoothing value={smoothing} />
        <Choice
          visible
          label="Over"
          value={along}
          options={[
            ["step", "steps"],
            ...(runs.some(({ hasEpochs }) => hasEpochs) ? ([["epoch", "epochs"]] as const) : []),
            ["time", "time"],
          ]}
          onChoose={(value) => {
            setRange(null);
            setQuery({ x: value === "step" ? "" : value });
          }}
        />
        {lacking.length > 0 && (
          <span class="muted">
            Without epochs, and not shown: {lacking.map(({ name }) => name).join(", ")}
          </span>
        )}
      </div>
      <div class="curves-grid">
        {shown.map((model, i) => {
          const title = charts[i]?.title ?? "";
          return (
            <LineChart
              key={title}
              model={model}
              name={runs.length === 1 ? [runs[0]?.name ?? ""] : ["comparison"]}
              height={180}
              scale={scaleOf(query, scaleKey(title)) ?? fittingScale(model)}
              onScale={(scale) => setQuery(scaleQuery(query, scaleKey(title), scale))}
              range={range}
              onZoom={setRange}
              sync="curves"
            />
          );
        })}
      </div>
      {models.length > SHOWN && (
        <button type="button" class="quiet" onClick={() => setAll(!all)}>
          {all ? "Show fewer" : `Show all ${models.length} charts`}
        </button>
      )}
    </section>
  );
}

function Smoothing({ value }: { value: number }) {
  return (
    <label class="curves-smoothing">
      Smoothing
      <input
        type="range"
        min="0"
        max="0.99"
        step="0.01"
        value={value}
        aria-label="Smoothing"
        onInput={(event) => setQuery({ smooth: event.currentTarget.value })}
      />
      <output>{value.toFixed(2)}</output>
    </label>
  );
}

/** Commas and dots separate the scales of charts in the address. */
function scaleKey(title: string): string {
  return `curve-${title.replace(/[,.]/g, "-")}`;
}

function alongOf(text: string, runs: readonly RunCurves[]): Along {
  if (text === "epoch" && runs.some(({ hasEpochs }) => hasEpochs)) return "epoch";
  return text === "time" ? "time" : "step";
}

function smoothingOf(text: string): number {
  const value = Number(text);
  return text === "" || !(value >= 0 && value < 1) ? SMOOTHING : value;
}
