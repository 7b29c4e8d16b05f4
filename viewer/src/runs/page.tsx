import { useMemo, useState } from "preact/hooks";
import type { Source } from "../api/source";
import { count, counted } from "../format";
import { Choice } from "../frame/choice";
import { Problem } from "../frame/problem";
import { Page } from "../page";
import { navigate, type Query, setQuery } from "../route";
import { useAnswer, useChanges } from "../use";
import { ColumnMenu } from "./column-menu";
import {
  arranged,
  COLUMNS,
  type Column,
  extrasOf,
  type Order,
  parseOrder,
  shownExtras,
  spellOrder,
} from "./columns";
import { NoRuns } from "./no-runs";
import { RunsTable } from "./table";
import "./runs.css";

/** The runs that are shown at first: a table of very many would be slow. */
const SHOWN = 200;

/** The list of all runs below the directory. */
export function RunsPage({ source, query }: { source: Source; query: Query }) {
  const changes = useChanges(source, null);
  const { data, error } = useAnswer((signal) => source.runs(signal), [source], "", changes);
  const [all, setAll] = useState(false);
  const chosen = new Set((query.chosen ?? "").split(",").filter((id) => id !== ""));
  const extras = useMemo(() => extrasOf(data?.runs ?? []), [data]);
  const shown = data ? shownExtras(extras, data.runs, query.columns) : [];
  const columns = [...COLUMNS, ...extras.metrics, ...extras.settings];
  const order = parseOrder(query.sort ?? "", columns);
  const runs = data ? arranged(data.runs, columns, order, query.q ?? "") : [];
  // The order of selection: the other runs are compared with the first.
  const known = new Set(data?.runs.map(({ id }) => id));
  const compared = [...chosen].filter((id) => known.has(id));
  const choose = (id: string) => {
    if (!chosen.delete(id)) chosen.add(id);
    setQuery({ chosen: [...chosen].join(",") });
  };
  return (
    <Page source={source} crumbs={[]}>
      {error && <Problem error={error} />}
      {data && data.runs.length === 0 && <NoRuns directory={data.directory} />}
      {data && data.runs.length > 0 && (
        <>
          <div class="runs-head">
            <h1>Runs</h1>
            <span class="muted">
              {counted(data.runs.length, "run")} in <span class="path">{data.directory}</span>
            </span>
            <input
              type="search"
              aria-label="Filter runs by name, tag, note or setting"
              placeholder="Filter: name, tag, lr=0.1"
              value={query.q ?? ""}
              onInput={(event) => setQuery({ q: event.currentTarget.value })}
            />
            <SortChoice columns={[...COLUMNS, ...shown]} order={order} />
            <ColumnMenu extras={extras} shown={shown} />
            <button
              type="button"
              class="primary"
              disabled={compared.length < 2}
              title={compared.length < 2 ? "Choose two or more runs" : ""}
              onClick={() => navigate({ page: "compare" }, { runs: compared.join(",") })}
            >
              {compared.length < 2 ? "Compare" : `Compare ${compared.length} runs`}
            </button>
          </div>
          <RunsTable
            runs={all ? runs : runs.slice(0, SHOWN)}
            extras={shown}
            order={order}
            chosen={chosen}
            choose={choose}
          />
          {runs.length > SHOWN && (
            <button type="button" class="quiet" onClick={() => setAll(!all)}>
              {all ? "Show fewer" : `Show all ${count(runs.length)} runs`}
            </button>
          )}
          {runs.length === 0 && <p class="muted">No run contains “{query.q}”.</p>}
        </>
      )}
      {data && <p class="version">gradwatch {data.version}</p>}
    </Page>
  );
}

/** The order of runs, on screens that are too narrow for the heads of columns. */
function SortChoice({ columns, order }: { columns: readonly Column[]; order: Order }) {
  const options = columns.flatMap(({ key, label }) => [
    [key, `${label} ↑`] as const,
    [`-${key}`, `${label} ↓`] as const,
  ]);
  return (
    <span class="runs-sort">
      <Choice
        label="Sort by"
        visible
        value={`${order.descending ? "-" : ""}${order.key}`}
        options={options}
        onChoose={(value) => setQuery({ sort: spellOrder(parseOrder(value, columns)) })}
      />
    </span>
  );
}
