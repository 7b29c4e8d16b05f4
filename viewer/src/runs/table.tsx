import { fromJson } from "../api/doubles";
import type { RunEntry } from "../api/types";
import { count, counted, date, duration, exact, short } from "../format";
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
      <td class="number">
        <Health health={run.health} />
      </td>
    </tr>
  );
}

function badLoss(loss: number): string {
  return Number.isFinite(loss) ? "" : "bad";
}

function Health({ health }: { health: RunEntry["health"] }) {
  if (health === null)
    return (
      <span class="faint" title="Not known yet. Open the run to diagnose it.">
        –
      </span>
    );
  const { errors, warnings } = health;
  if (errors + warnings === 0) return <span class="well">no problems</span>;
  return (
    <>
      {errors > 0 && <span class="bad">{counted(errors, "error")}</span>}
      {errors > 0 && warnings > 0 && ", "}
      {warnings > 0 && <span class="warned">{counted(warnings, "warning")}</span>}
    </>
  );
}
