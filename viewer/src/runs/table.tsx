import { fromJson } from "../api/doubles";
import type { Condition, Health, RunEntry } from "../api/types";
import { count, date, duration, exact, short } from "../format";
import { href, setQuery } from "../route";
import { COLUMNS, type ColumnKey, type Order, spellOrder } from "./columns";
import { StatusMark } from "./status";

interface RunsTableProps {
  runs: RunEntry[];
  order: Order;
  chosen: ReadonlySet<string>;
  choose: (id: string) => void;
}

export function RunsTable({ runs, order, chosen, choose }: RunsTableProps) {
  const sort = (key: ColumnKey, numeric: boolean) => {
    // The first click sorts numbers descending and names ascending.
    const descending = order.key === key ? !order.descending : numeric;
    setQuery({ sort: spellOrder({ key, descending }) });
  };
  return (
    <table class="runs">
      <thead>
        <tr>
          <th scope="col">
            <span class="hidden-visually">Choose</span>
          </th>
          {COLUMNS.map(({ key, label, numeric }) => (
            <th
              key={key}
              scope="col"
              class={numeric ? "number" : ""}
              aria-sort={order.key !== key ? "none" : order.descending ? "descending" : "ascending"}
            >
              <button type="button" class="sort" onClick={() => sort(key, numeric)}>
                {label}
                <span class="arrow" aria-hidden="true">
                  {order.key !== key ? "" : order.descending ? "↓" : "↑"}
                </span>
              </button>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {runs.map((run) => (
          <RunRow key={run.id} run={run} chosen={chosen.has(run.id)} choose={choose} />
        ))}
      </tbody>
    </table>
  );
}

function RunRow({
  run,
  chosen,
  choose,
}: {
  run: RunEntry;
  chosen: boolean;
  choose: (id: string) => void;
}) {
  const broken = run.status === "broken";
  const loss = run.loss === null ? null : fromJson(run.loss);
  return (
    <tr class={chosen ? "chosen" : ""} data-run={run.id}>
      <td>
        <input
          type="checkbox"
          aria-label={`Choose ${run.name}`}
          checked={chosen}
          disabled={broken}
          onChange={() => choose(run.id)}
        />
      </td>
      <td>
        <StatusMark status={run.status} />
      </td>
      <td class="run-name">
        {broken ? (
          <span>{run.name}</span>
        ) : (
          <a href={href({ page: "run", run: run.id })} title={run.name}>
            {run.name}
          </a>
        )}
        {run.error && <span class="run-error">{run.error}</span>}
      </td>
      <td class="number">{run.started === null ? "" : date(run.started)}</td>
      <td class="number">{run.duration === null ? "" : duration(run.duration)}</td>
      <td class="number">{run.last_step === null ? "" : count(run.last_step)}</td>
      <td class="number" title={loss === null ? "" : exact(loss)}>
        {loss === null ? "" : <span class={badLoss(loss)}>{short(loss)}</span>}
      </td>
      <td class="health">
        <HealthCell health={run.health} />
      </td>
    </tr>
  );
}

function badLoss(loss: number): string {
  return Number.isFinite(loss) ? "" : "bad";
}

const CONDITION_CLASS: Partial<Record<Condition, string>> = {
  ok: "well",
  running: "well",
  warning: "warned",
  "not diagnosed": "faint",
};

/** The condition, and what is wrong. */
function HealthCell({ health }: { health: Health | null }) {
  if (health === null) return <span class="faint">…</span>;
  const { condition, headline } = health;
  const hint =
    condition === "not diagnosed" ? "Open the run to diagnose it." : headline || undefined;
  return (
    <span title={hint}>
      <span class={CONDITION_CLASS[condition] ?? "bad"}>{condition}</span>{" "}
      {headline && <span class="muted">{headline}</span>}
    </span>
  );
}
