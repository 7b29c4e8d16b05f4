import type { Source } from "../api/source";
import type { Finding, RunData, Severity } from "../api/types";
import { count, counted } from "../format";
import { FindingCard } from "./finding-card";
import "./findings.css";

const ORDER: Severity[] = ["error", "warning", "info"];
/** The number of findings that are shown at first. */
const FIRST = 5;

/** The id of a finding's element. */
export function findingId({ rule, layer, since }: Finding): string {
  return `finding-${rule}-${layer}-${since}`;
}

/** The findings, the most severe first. Findings that others explain are collapsed. */
export function Findings({ source, run }: { source: Source; run: RunData }) {
  const sorted = [...run.findings].sort(
    (a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity) || a.since - b.since,
  );
  const own = sorted.filter(({ explained_by }) => !explained_by);
  const explained = sorted.filter(({ explained_by }) => explained_by);
  const card = (finding: Finding) => (
    <FindingCard key={findingId(finding)} source={source} run={run} finding={finding} />
  );
  return (
    <section class="findings" aria-label="Findings">
      {run.learning && <p class="verdict">Verdict: {run.learning.text}</p>}
      {own.length === 0 && run.findings_complete && (
        <p class="all-well">
          <span class="dot" aria-hidden="true" />
          The rules found no problem.
        </p>
      )}
      {own.slice(0, FIRST).map(card)}
      {own.length > FIRST && (
        <details>
          <summary>{count(own.length - FIRST)} more</summary>
          {own.slice(FIRST).map(card)}
        </details>
      )}
      {!run.findings_complete && (
        <p class="muted" role="status">
          The rules are still checking the run …
        </p>
      )}
      {explained.length > 0 && (
        <details>
          <summary>{counted(explained.length, "finding")} explained by those above</summary>
          {explained.map(card)}
        </details>
      )}
    </section>
  );
}
