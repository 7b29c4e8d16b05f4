import type { Source } from "../api/source";
import { counted } from "../format";
import { Problem } from "../frame/problem";
import { Page } from "../page";
import { navigate, type Query, setQuery } from "../route";
import { useAnswer, useChanges } from "../use";
import { arranged, parseOrder } from "./columns";
import { NoRuns } from "./no-runs";
import { RunsTable } from "./table";
import "./runs.css";

/** The list of all runs below the directory. */
export function RunsPage({ source, query }: { source: Source; query: Query }) {
  const changes = useChanges(source, null);
  const { data, error } = useAnswer((signal) => source.runs(signal), [source], "", changes);
  const chosen = new Set((query.chosen ?? "").split(",").filter((id) => id !== ""));
  const order = parseOrder(query.sort ?? "");
  const runs = data ? arranged(data.runs, order, query.q ?? "") : [];
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
              aria-label="Filter runs by name"
              placeholder="Filter by name"
              value={query.q ?? ""}
              onInput={(event) => setQuery({ q: event.currentTarget.value })}
            />
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
          <RunsTable runs={runs} order={order} chosen={chosen} choose={choose} />
          {runs.length === 0 && <p class="muted">No run's name contains “{query.q}”.</p>}
        </>
      )}
      {data && <p class="version">gradwatch {data.version}</p>}
    </Page>
  );
}
