import type { Rule } from "../api/types";
import { printable, short } from "../format";

/** What a rule looks for, its numbers and how to silence it; closed until it is asked for. */
export function RulePage({ name, rule }: { name: string; rule: Rule | undefined }) {
  if (rule === undefined) return <p class="finding-details muted">rule {printable(name)}</p>;
  const thresholds = Object.entries(rule.thresholds);
  return (
    <details class="rule-page">
      <summary>
        rule <span class="rule-name">{printable(name)}</span>
      </summary>
      <p>{printable(rule.about)}</p>
      {thresholds.length > 0 && (
        <dl>
          {thresholds.map(([threshold, { value, reason }]) => (
            <div key={threshold}>
              <dt>
                {printable(threshold)} = {typeof value === "number" ? short(value) : value}
              </dt>
              <dd>{printable(reason)}</dd>
            </div>
          ))}
        </dl>
      )}
      <p>
        To silence it: <code>{silencing(name)}</code>
      </p>
    </details>
  );
}

/** The code that silences a rule. */
export function silencing(name: string): string {
  return `gradwatch.Monitor(..., diagnose=[gradwatch.silence("${printable(name)}", because="...")])`;
}
