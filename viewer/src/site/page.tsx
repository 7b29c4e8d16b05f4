import { useMemo } from "preact/hooks";
import type { Source } from "../api/source";
import { LineChart } from "../charts/line-chart";
import { NoRun } from "../frame/no-run";
import { Problem } from "../frame/problem";
import { Page, type RunProps } from "../page";
import { href, type Query, setQuery } from "../route";
import type { Range } from "../time/range";
import { useAnswer, useChanges } from "../use";
import { SiteDistribution } from "./distribution";
import { SiteFacts } from "./facts";
import { SiteFindings } from "./findings";
import { SiteHeader } from "./header";
import { useLiveSeries } from "./live-series";
import { siteCharts } from "./models";
import { Pictures } from "./pictures";
import { rangeOf, rangeQuery, scaleOf, scaleQuery } from "./state";
import "./site.css";

interface SiteProps {
  source: Source;
  run: string;
  query: Query;
}

/** The page of one tensor, or of a layer or block with its tensors merged. */
export function SitePage({ source, run, query }: SiteProps) {
  const changes = useChanges(source, run);
  const { data, error } = useAnswer((signal) => source.run(run, signal), [source], run, changes);
  const { kind = "", path = "", rank = "" } = query;
  const crumbs = [
    {
      label: data?.name ?? (error ? "Not found" : "…"),
      href: href({ page: "run", run }, { kind, rank }),
    },
    { label: path },
  ];
  return (
    <Page source={source} crumbs={crumbs}>
      {error && (data ? <Problem error={error} /> : <NoRun error={error} />)}
      {data && <Site source={source} run={data} changes={changes} query={query} />}
    </Page>
  );
}

function Site({ source, run, changes, query }: RunProps) {
  const { kind = "", path = "" } = query;
  const range = useRange(query);
  const { data: series, error } = useLiveSeries(
    source,
    { run: run.id, kind, path },
    range,
    changes,
  );
  const isCurrent = series?.about.kind === kind && series.about.path === path;
  const about = run.kinds.find((one) => one.kind === series?.about.kind);
  const charts = useMemo(
    () => (series ? siteCharts(series, run, about) : []),
    [series, run, about],
  );
  const name = [run.name, about?.label ?? kind, series?.about.path ?? path];
  const sync = `site ${run.id}`;
  const zoom = (chosen: Range | null) => setQuery(rangeQuery(chosen), true);
  return (
    <>
      <SiteHeader source={source} run={run} query={query} />
      {error && <Problem error={error} />}
      {series && (isCurrent || !error) && (
        <div class={isCurrent ? "" : "site-old"}>
          <SiteFacts series={series} />
          <SiteFindings run={run} findings={series.about.findings} />
          {range && (
            <p class="site-range">
              Steps {range.from} to {range.to}.{" "}
              <button type="button" onClick={() => zoom(null)}>
                Show the whole run
              </button>
            </p>
          )}
          <h2 class="hidden-visually">Charts</h2>
          <div class="site-charts">
            {charts.map(({ id, model, scale, switchable, note = "" }) => (
              <LineChart
                key={id}
                model={model}
                name={name}
                note={note}
                scale={scaleOf(query, id) ?? scale}
                {...(switchable
                  ? { onScale: (chosen) => setQuery(scaleQuery(query, id, chosen)) }
                  : {})}
                range={range}
                onZoom={zoom}
                sync={sync}
              />
            ))}
            <SiteDistribution {...{ source, run, series, name, range, sync }} onZoom={zoom} />
            {run.pictured.includes(path) && (
              <Pictures key={path} {...{ source, path, query, changes }} run={run.id} />
            )}
          </div>
        </div>
      )}
    </>
  );
}

/** The range in the address. The object changes only if the range does. */
function useRange(query: Query): Range | null {
  const { from = "", to = "" } = query;
  return useMemo(() => rangeOf(from, to), [from, to]);
}
