import { useMemo } from "preact/hooks";
import type { Processes } from "../api/types";
import { ChartPanel } from "../charts/panel";
import { Choice } from "../frame/choice";
import { Problem } from "../frame/problem";
import { nameOf } from "../overview/numbers";
import type { RunProps } from "../page";
import { setQuery } from "../route";
import { wholeRange } from "../time/range";
import { useTimeRange } from "../time/use-range";
import { useAnswer } from "../use";
import { RankColours } from "./colours";
import { exportedRanks } from "./export";
import { RankHeatmap } from "./heatmap";
import { type Order, rankTable } from "./rows";
import { RankStates, StoppedRanks } from "./states";
import "./ranks.css";

/** The greatest number of rows and columns; the server merges more. */
const ROWS = 250;
const COLUMNS = 320;

/** The states of the processes of a run, and a heatmap of one of their numbers. */
export function RanksPanel(props: RunProps) {
  const { processes } = props.run;
  return processes && <Panel {...props} processes={processes} />;
}

function Panel({ source, run, query, changes, processes }: RunProps & { processes: Processes }) {
  const numbers = processes.numbers.filter(({ kind, path }) => source.hasRanks(kind, path));
  const chosen = numbers.find((one) => keyOf(one) === query.of) ?? numbers[0];
  const order: Order = query.order === "value" ? "value" : "rank";
  const full = useMemo(() => wholeRange(run), [run.first_step, run.last_step]);
  const time = useTimeRange(full, query);
  const from = time.settled && Math.floor(time.settled.from);
  const to = time.settled && Math.ceil(time.settled.to);
  const key = chosen ? keyOf(chosen) : "";
  const { data, error } = useAnswer(
    async (signal) =>
      chosen
        ? await source.ranks(run.id, { ...chosen, rows: ROWS, columns: COLUMNS, from, to }, signal)
        : null,
    [source, key, from, to],
    `${run.id} ${key}`,
    changes,
  );
  const table = useMemo(
    () => data && rankTable(data, processes, run.findings, order, full.to),
    [data, processes, run.findings, order, full.to],
  );
  const colours = useMemo(() => new RankColours(table?.values ?? new Float64Array()), [table]);
  const title = chosen ? nameOf(chosen) : "";
  return (
    <div class="ranks">
      <ChartPanel
        title="Ranks"
        chart={exportedRanks(run, title, table, time.range, colours)}
        controls={
          chosen && (
            <>
              <Choice
                label="Number of the ranks"
                value={key}
                options={numbers.map((one) => [keyOf(one), nameOf(one)])}
                onChoose={(of) => setQuery({ of })}
              />
              <Choice
                label="Order of the ranks"
                value={order}
                options={[
                  ["rank", "by rank"],
                  ["value", "greatest first"],
                ]}
                onChoose={(by) => setQuery({ order: by === "rank" ? "" : by })}
              />
            </>
          )
        }
      >
        <RankStates processes={processes} />
        <StoppedRanks processes={processes} />
        {error && <Problem error={error} />}
        {table && <RankHeatmap table={table} range={time.range} colours={colours} title={title} />}
        {chosen && !table && !error && <div class="ranks-awaited" />}
        {!chosen && <p class="muted">No number is recorded by more than one process.</p>}
      </ChartPanel>
    </div>
  );
}

function keyOf({ kind, path }: { kind: string; path: string }): string {
  return `${kind} ${path}`;
}
