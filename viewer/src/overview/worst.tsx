import { useMemo } from "preact/hooks";
import type { Source } from "../api/source";
import type { RunData } from "../api/types";
import { LineChart } from "../charts/line-chart";
import { printable } from "../format";
import { href } from "../route";
import { siteCharts } from "../site/models";
import { decodeSeries } from "../site/series";
import { useAnswer } from "../use";

/** The number of charts; all sites have links. */
const DRAWN = 6;
/** More columns than a report has. */
const COLUMNS = 2000;

/** The layers and sites that a report has charts of, the worst first. */
export function Worst({ source, run }: { source: Source; run: RunData }) {
  const byPath = new Map<string, string[]>();
  for (const { kind, path } of source.plotted)
    byPath.set(path, [...(byPath.get(path) ?? []), kind]);
  if (byPath.size === 0) return null;
  const places = [...byPath];
  return (
    <section class="worst" aria-label="Worth a closer look">
      <h2>Worth a closer look</h2>
      <div class="worst-charts">
        {places.slice(0, DRAWN).map(([path, [kind = ""]]) => (
          <WorstChart key={path} {...{ source, run, kind, path }} />
        ))}
      </div>
      <ul class="worst-links">
        {places.map(([path, kinds]) => (
          <li key={path}>
            <span class="path">{printable(path)}</span>
            {kinds.map((kind) => (
              <a key={kind} href={href({ page: "site", run: run.id }, { kind, path })}>
                {kind.replaceAll("_", " ")}
              </a>
            ))}
          </li>
        ))}
      </ul>
    </section>
  );
}

function WorstChart({
  source,
  run,
  kind,
  path,
}: {
  source: Source;
  run: RunData;
  kind: string;
  path: string;
}) {
  const { data } = useAnswer(
    (signal) => source.series(run.id, { kind, path }, { columns: COLUMNS }, signal),
    [source, run.id, kind, path],
  );
  const about = run.kinds.find((one) => one.kind === kind);
  const chart = useMemo(
    () => (data ? siteCharts(decodeSeries(data), run, about)[0] : undefined),
    [data, run, about],
  );
  if (!chart) return null;
  const label = about?.label ?? kind;
  return (
    <LineChart
      model={{ ...chart.model, title: path }}
      name={[run.name, label, path]}
      note={label}
      height={190}
      scale={chart.scale}
      sync="worst"
    />
  );
}
