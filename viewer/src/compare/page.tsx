import { useMemo } from "preact/hooks";
import type { Source } from "../api/source";
import type { KindData, RunData } from "../api/types";
import { Curves } from "../curves/panel";
import { Problem } from "../frame/problem";
import { Page } from "../page";
import { type Query, setQuery } from "../route";
import { rangeOf, rangeQuery, scaleOf, scaleQuery } from "../site/state";
import { useAnswer, useChanges } from "../use";
import { decodeComparison, distances, MODEL, measureOf, mostDifferent } from "./comparison";
import { Controls, RunKeys } from "./controls";
import { DifferenceGrid } from "./grid";
import { Overlay } from "./overlay";
import { RunPicker } from "./picker";
import { Ranking } from "./ranking";
import { matchedText, mergedText, onlyText } from "./words";
import "./compare.css";

/** Compares two or more runs: one layer in a chart, and all layers in a heatmap. */
export function ComparePage({ source, query }: { source: Source; query: Query }) {
  const ids = useMemo(() => idsOf(query.runs ?? ""), [query.runs]);
  const changes = useChanges(source, ids);
  const { data: runs, error } = useAnswer(
    (signal) => Promise.all(ids.map((id) => source.run(id, signal))),
    [source],
    ids.join(","),
    changes,
  );
  const crumbs = [{ label: runs ? runs.map(({ name }) => name).join(" and ") : "Compare" }];
  return (
    <Page source={source} crumbs={crumbs}>
      {ids.length < 2 && <RunPicker source={source} chosen={ids[0] ?? ""} />}
      {error && <Problem error={error} />}
      {ids.length >= 2 && <h1 class="hidden-visually">Compare runs</h1>}
      {ids.length >= 2 && runs && (
        <Compared source={source} runs={runs} changes={changes} query={query} />
      )}
    </Page>
  );
}

interface ComparedProps {
  source: Source;
  runs: RunData[];
  changes: number;
  query: Query;
}

function Compared({ source, runs, changes, query }: ComparedProps) {
  const kinds = commonKinds(runs);
  const kind = kinds.find((one) => one.kind === query.kind) ?? kinds[0];
  const ids = useMemo(() => runs.map(({ id }) => id), [runs]);
  const compared = Math.max(1, ids.indexOf(query.with ?? ""));
  return (
    <>
      <RunKeys runs={runs} compared={compared} onCompare={(id) => setQuery({ with: id })} />
      <Curves source={source} runs={ids} query={query} changes={changes} />
      {kind ? (
        <ComparedKind {...{ source, runs, changes, query, kinds, kind, compared }} />
      ) : (
        <p>The layers cannot be compared: no kind is measured in all of these runs.</p>
      )}
    </>
  );
}

function ComparedKind(
  props: ComparedProps & { kinds: KindData[]; kind: KindData; compared: number },
) {
  const { source, runs, changes, query, kinds, kind, compared } = props;
  const ids = runs.map(({ id }) => id);
  const statistic = kind.statistics.find(({ name }) => name === query.stat) ?? kind.statistics[0];
  const align = query.align === "fraction" ? "fraction" : "step";
  const request = { kind: kind.kind, statistic: statistic?.name ?? "", align } as const;
  const pattern = query.q ?? "";
  const { data, error, loading } = useAnswer(
    (signal) =>
      source.compare(
        ids,
        { ...request, pattern, columns: columnsFor(runs, pattern === "" ? kind.sites : 1, align) },
        signal,
      ),
    [source, pattern],
    JSON.stringify([ids, request]),
    changes,
  );
  const comparison = useMemo(() => (data ? decodeComparison(data) : null), [data]);
  const measure = measureOf(statistic);
  const ranked = useMemo(
    () => (comparison ? mostDifferent(comparison, distances(comparison, compared, measure)) : []),
    [comparison, compared, measure],
  );
  const path = query.path || ranked[0]?.path || MODEL;
  const { from = "", to = "" } = query;
  const range = useMemo(() => rangeOf(from, to), [from, to]);
  const choose = (chosen: string) => setQuery({ path: chosen });
  return (
    <>
      <h2>Layers</h2>
      <Controls {...{ kinds, kind, align, query }} statistic={request.statistic} />
      {error && <Problem error={error} />}
      {comparison && !error && (
        <div class={loading ? "compare-old" : ""}>
          {[matchedText(comparison), onlyText(comparison), mergedText(comparison, kind.sites)]
            .filter((text) => text !== "")
            .map((text) => (
              <p key={text} class="compare-only">
                {text}
              </p>
            ))}
          <h2 class="hidden-visually">Layers</h2>
          <div class="compare-top">
            <Overlay
              source={source}
              runs={ids}
              names={runs.map(({ name }) => name)}
              request={{ ...request, path }}
              statistic={statistic}
              changes={changes}
              scale={scaleOf(query, "overlay")}
              onScale={(chosen) => setQuery(scaleQuery(query, "overlay", chosen))}
              range={range}
              onZoom={(chosen) => setQuery(rangeQuery(chosen))}
            />
            {ranked.length > 0 && (
              <Ranking {...{ comparison, ranked, measure }} chosen={path} onChoose={choose} />
            )}
          </div>
          <DifferenceGrid
            comparison={comparison}
            run={compared}
            measure={measure}
            statistic={statistic?.label ?? ""}
            unit={statistic?.unit ?? ""}
            chosen={path}
            onChoose={choose}
          />
        </div>
      )}
    </>
  );
}

/** The greatest number of cells in an answer of the server. */
const CELLS = 150_000;

/** Rows for each tensor: its own row, and a part of the row of its layer. */
const ROWS = 1.5;

/**
 * The number of columns: as many as leave room for all rows, but not more than steps. By share of
 * training it is not more than the steps of each run, so that no run has empty columns.
 */
function columnsFor(runs: RunData[], tensors: number, align: "step" | "fraction"): number {
  const room = Math.floor(CELLS / runs.length / Math.max(1, ROWS * tensors));
  const each = runs.map((run) => run.steps);
  const steps = align === "fraction" ? Math.min(...each) : each.reduce((sum, one) => sum + one, 0);
  return Math.max(1, Math.min(Math.max(40, Math.min(150, room)), steps));
}

function idsOf(text: string): string[] {
  return [...new Set(text.split(",").filter((id) => id !== ""))];
}

/** The kinds that all runs have. */
function commonKinds([first, ...others]: RunData[]): KindData[] {
  return (first?.kinds ?? []).filter(({ kind }) =>
    others.every((run) => run.kinds.some((one) => one.kind === kind)),
  );
}
