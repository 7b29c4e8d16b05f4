import type { Source } from "../api/source";
import type { Finding, RunData } from "../api/types";
import { count, printable, short } from "../format";
import { rankOf } from "../ranks/rows";
import { href, setQuery } from "../route";
import { findingId } from "./findings";
import { RulePage } from "./rule-page";

/** The number of sites that are listed; the rest is counted. */
const NAMED = 3;

/** A finding with its steps, its sites, its evidence and its remedy. */
export function FindingCard({
  source,
  run,
  finding,
}: {
  source: Source;
  run: RunData;
  finding: Finding;
}) {
  const { severity, title, since, until, evidence, remedy, rule } = finding;
  const numbers = Object.entries(evidence);
  return (
    <article id={findingId(finding)} class={`finding ${severity}`} tabIndex={-1}>
      <header>
        <span class="severity">{severity}</span>
        <h2>{printable(title)}</h2>
        <button
          type="button"
          class="since"
          title="Show these steps"
          onClick={() => setQuery(around(finding, run))}
        >
          {until === null
            ? `since step ${count(since)}`
            : `steps ${count(since)} – ${count(until)}`}
        </button>
      </header>
      <p>{remedy}</p>
      <p class="finding-details">
        <Where source={source} run={run} finding={finding} />
        {numbers.map(([name, value]) => (
          <span key={name} class="evidence">
            <span class="muted">{name.replaceAll("_", " ")}</span>{" "}
            {typeof value === "number" ? short(value) : printable(value)}
          </span>
        ))}
      </p>
      <RulePage name={rule} rule={run.rules[rule]} />
    </article>
  );
}

function Where({ source, run, finding }: { source: Source; run: RunData; finding: Finding }) {
  const { layer, sites } = finding;
  const kind = sites[0]?.[0];
  const places: [kind: string, path: string][] =
    layer && kind ? [[kind, layer]] : sites.slice(0, NAMED);
  // Losses have no page.
  const hasPage = (of: string, path: string) =>
    run.kinds.some((one) => one.kind === of) && source.hasSeries(of, path);
  // The link of a finding about a rank shows the numbers of that rank.
  const rank = String(rankOf(finding) ?? "");
  const more = layer ? 0 : sites.length - places.length;
  return (
    <>
      {places.map(([of, path]) => (
        <span key={`${of} ${path}`} class="evidence">
          <span class="muted">{layer ? "layer" : of.replaceAll("_", " ")}</span>{" "}
          {hasPage(of, path) ? (
            <a class="path" href={href({ page: "site", run: run.id }, { kind: of, path, rank })}>
              {printable(path)}
            </a>
          ) : (
            <span class="path">{printable(path)}</span>
          )}
        </span>
      ))}
      {more > 0 && <span class="evidence muted">and {count(more)} more</span>}
    </>
  );
}

/** The steps around the first step of a finding. */
function around({ since }: Finding, run: RunData): { from: string; to: string } {
  const first = run.first_step ?? 0;
  const last = run.last_step ?? since;
  const half = Math.max(10, Math.round((last - first) / 10));
  return {
    from: String(Math.max(first, since - half)),
    to: String(Math.min(last + 1, since + half)),
  };
}
