import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Source } from "../api/source";
import type { Finding, KindData } from "../api/types";
import { Curves } from "../curves/panel";
import { NoRun } from "../frame/no-run";
import { Problem } from "../frame/problem";
import { Page, type RunProps } from "../page";
import { RanksPanel } from "../ranks/panel";
import { href, type Query } from "../route";
import { useAnswer, useChanges } from "../use";
import { Explorer } from "./explorer";
import { Facts } from "./facts";
import { Findings, findingId } from "./findings";
import { NumbersOnly } from "./numbers-only";
import { RunHead } from "./run-head";
import type { OpenPaths } from "./use-rows";
import { Worst } from "./worst";
import "./overview.css";

/** The overview of a run: its findings, its numbers, and all layers over all steps. */
export function OverviewPage({
  source,
  run,
  query,
}: {
  source: Source;
  run: string;
  query: Query;
}) {
  const changes = useChanges(source, run);
  const { data, error } = useAnswer((signal) => source.run(run, signal), [source], run, changes);
  const actions = !source.alone && (
    <a
      class="button"
      href={href({ page: "compare" }, { runs: run })}
      title="Choose a run to compare with this run"
    >
      Compare
    </a>
  );
  return (
    <Page
      source={source}
      crumbs={[{ label: data?.name ?? (error ? "Not found" : "…") }]}
      actions={data && actions}
    >
      {error && (data ? <Problem error={error} /> : <NoRun error={error} />)}
      {data && <Overview source={source} run={data} query={query} changes={changes} />}
    </Page>
  );
}

function Overview({ source, run, query, changes }: RunProps) {
  const kind = run.kinds.find((one) => one.kind === query.kind) ?? run.kinds[0];
  const ids = useMemo(() => [run.id], [run.id]);
  const choose = useCallback((finding: Finding) => {
    const element = document.getElementById(findingId(finding));
    element?.scrollIntoView({ block: "center" });
    element?.focus();
  }, []);
  return (
    <>
      <RunHead source={source} run={run} rank={query.rank ?? ""} />
      <Findings source={source} run={run} />
      <Curves source={source} runs={ids} query={query} changes={changes} epochs={run.epochs} />
      <RanksPanel source={source} run={run} query={query} changes={changes} />
      {kind ? (
        <KindExplorer {...{ source, run, query, changes, kind, choose }} />
      ) : (
        <>
          {run.numbers.length > 0 && (
            <NumbersOnly {...{ source, run, query, changes }} chooseFinding={choose} />
          )}
          <p class="empty">
            The run has no measured tensors{run.status === "live" && " yet"}.
            {run.status === "live" && " They appear here as soon as they are measured."}
          </p>
        </>
      )}
      {source.report && <Worst source={source} run={run} />}
      <Facts run={run} />
    </>
  );
}

function KindExplorer(props: RunProps & { kind: KindData; choose: (finding: Finding) => void }) {
  const { source, run, query, kind } = props;
  const [asked, setAsked] = useState(0);
  const openPaths: OpenPaths = useRef(null);
  // New sites change the tree; requests of cells fail if it is outdated.
  const { data: tree, error } = useAnswer(
    (signal) => source.tree(run.id, kind.kind, signal),
    [source, run.id, kind.sites, asked],
    kind.kind,
  );
  const [kept, setKept] = useState(tree);
  useEffect(() => {
    // The same tree keeps rows, open blocks and cells.
    setKept((old) =>
      tree && old?.revision === tree.revision && old.kind === tree.kind ? old : tree,
    );
  }, [tree]);
  const statistic = kind.statistics.find(({ name }) => name === query.stat) ?? kind.statistics[0];
  if (error && !kept) return <Problem error={error} />;
  if (!kept || kept.kind !== kind.kind || !statistic) return <div class="explorer awaited" />;
  return (
    <>
      <Explorer
        {...{ source, run, kind, statistic, query, openPaths }}
        tree={kept}
        changes={props.changes}
        reloadTree={() => setAsked((old) => old + 1)}
        chooseFinding={props.choose}
      />
      {run.meaning[kind.kind] && <p class="meaning">{run.meaning[kind.kind]}</p>}
    </>
  );
}
