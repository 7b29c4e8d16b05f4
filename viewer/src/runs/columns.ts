import { fromJson } from "../api/doubles";
import type { RunEntry, Status } from "../api/types";

/** The columns of the table, by which runs can be sorted. */
export const COLUMNS = [
  { key: "status", label: "Status", numeric: false },
  { key: "name", label: "Name", numeric: false },
  { key: "started", label: "Started", numeric: true },
  { key: "duration", label: "Duration", numeric: true },
  { key: "step", label: "Last step", numeric: true },
  { key: "loss", label: "Last loss", numeric: true },
  { key: "health", label: "Health", numeric: true },
] as const;

export type ColumnKey = (typeof COLUMNS)[number]["key"];

export interface Order {
  key: ColumnKey;
  descending: boolean;
}

/** The order in an address: "name", or "-started" for descending. The newest is first by default. */
export function parseOrder(text: string): Order {
  const key = text.replace(/^-/, "");
  const known = COLUMNS.find((column) => column.key === key)?.key;
  return known ? { key: known, descending: text.startsWith("-") } : NEWEST;
}

export const NEWEST: Order = { key: "started", descending: true };

export function spellOrder({ key, descending }: Order): string {
  if (key === NEWEST.key && descending === NEWEST.descending) return "";
  return `${descending ? "-" : ""}${key}`;
}

/** The runs whose name contains the text, in order. Unknown values come last. */
export function arranged(runs: readonly RunEntry[], order: Order, text: string): RunEntry[] {
  const wanted = text.trim().toLowerCase();
  const sign = order.descending ? -1 : 1;
  return runs
    .filter(({ name }) => name.toLowerCase().includes(wanted))
    .map((run) => ({ run, value: sortValue(run, order.key) }))
    .sort((a, b) => {
      if (a.value === null || b.value === null)
        return Number(a.value === null) - Number(b.value === null);
      if (a.value === b.value) return names.compare(a.run.name, b.run.name);
      if (typeof a.value === "string" || typeof b.value === "string")
        return sign * names.compare(String(a.value), String(b.value));
      return sign * (a.value - b.value);
    })
    .map(({ run }) => run);
}

/** run2 comes before run10. */
const names = new Intl.Collator("en", { numeric: true });

const STATUS_ORDER: Status[] = ["live", "crashed", "damaged", "broken", "finished", "empty"];

function sortValue(run: RunEntry, key: ColumnKey): number | string | null {
  switch (key) {
    case "status":
      return run.status === null ? null : STATUS_ORDER.indexOf(run.status);
    case "name":
      return run.name;
    case "started":
      return run.started;
    case "duration":
      return run.duration;
    case "step":
      return run.last_step;
    case "loss": {
      const loss = run.loss === null ? Number.NaN : fromJson(run.loss);
      return Number.isNaN(loss) ? null : loss;
    }
    case "health":
      return run.health === null ? null : run.health.errors * 1e6 + run.health.warnings;
  }
}
