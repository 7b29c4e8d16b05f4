import type { RunData } from "../api/types";

/** Further facts about the run. */
export function Facts({ run }: { run: RunData }) {
  if (run.facts.length === 0) return null;
  return (
    <section class="facts" aria-label="Facts">
      <h2>About this run</h2>
      <dl>
        {run.facts.map(({ name, value }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
