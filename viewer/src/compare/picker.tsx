import type { Source } from "../api/source";
import { counted, date } from "../format";
import { Problem } from "../frame/problem";
import { href } from "../route";
import { StatusMark } from "../runs/status";
import { useAnswer, useChanges } from "../use";

/** Offers the runs to compare with the chosen one; without one, those to begin with. */
export function RunPicker({ source, chosen }: { source: Source; chosen: string }) {
  const changes = useChanges(source, null);
  const { data, error } = useAnswer((signal) => source.runs(signal), [source], "", changes);
  if (error) return <Problem error={error} />;
  if (data === null) return null;
  const name = data.runs.find(({ id }) => id === chosen)?.name;
  const others = data.runs
    .filter(({ id, status }) => id !== chosen && status !== "broken")
    .sort((a, b) => (b.started ?? 0) - (a.started ?? 0));
  return (
    <div class="compare-picker">
      <h1>{name === undefined ? "Compare" : `Compare ${name} with`}</h1>
      {others.length === 0 && <p>There is no other run in this folder.</p>}
      <ul>
        {others.map((run) => (
          <li key={run.id}>
            <a
              href={href(
                { page: "compare" },
                { runs: name === undefined ? run.id : `${chosen},${run.id}` },
              )}
            >
              {run.name}
            </a>
            <span class="muted">
              <StatusMark status={run.status} />
              {run.started !== null && ` · ${date(run.started)}`}
              {run.steps !== null && ` · ${counted(run.steps, "measured step")}`}
            </span>
          </li>
        ))}
      </ul>
      <p class="muted">
        More than two runs can be chosen in the{" "}
        <a href={href({ page: "runs" }, { chosen })}>list of runs</a>.
      </p>
    </div>
  );
}
