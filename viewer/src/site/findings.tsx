import type { Finding, RunData } from "../api/types";
import { count, printable } from "../format";
import { RulePage } from "../overview/rule-page";

/** The findings about a site. */
export function SiteFindings({ run, findings }: { run: RunData; findings: readonly number[] }) {
  const found = findings
    .map((place) => run.findings[place])
    .filter((finding): finding is Finding => finding !== undefined);
  if (found.length === 0) return null;
  return (
    <ul class="site-findings" aria-label="Findings about this site">
      {found.map((finding) => (
        <li key={`${finding.rule} ${finding.since} ${finding.title}`} class={finding.severity}>
          <b>{finding.severity}</b>
          <span>
            {printable(finding.title)}
            <span class="muted"> since step {count(finding.since)}</span>
            {finding.remedy && <span class="site-remedy">{finding.remedy}</span>}
            {finding.explained_by && (
              <span class="muted"> Explained by: {finding.explained_by}</span>
            )}
            <RulePage name={finding.rule} rule={run.rules[finding.rule]} />
          </span>
        </li>
      ))}
    </ul>
  );
}
