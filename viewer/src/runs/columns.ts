import { fromJson } from "../api/doubles";
import type { Condition, RunEntry, Status } from "../api/types";

const STATUS_ORDER: Status[] = ["live", "crashed", "damaged", "broken", "finished", "empty"];

/** From well to worst. */
const CONDITION_ORDER: Condition[] = [
  "ok",
  "running",
  "not diagnosed",
  "warning",
  "stopped",
  "damaged",
  "error",
];

type SortValue = (run: RunEntry) => number | string | null;

const byStatus: SortValue = ({ status }) => status && STATUS_ORDER.indexOf(status);
const byHealth: SortValue = ({ health }) =>
  health && CONDITION_ORDER.indexOf(health.condition) * 1e6 + health.errors + health.warnings;
const byLoss: SortValue = ({ loss }) => {
  const value = loss === null ? Number.NaN : fromJson(loss);
  return Number.isNaN(value) ? null : value;
};

/** The columns of the table, by which runs can be sorted. Unknown values are null. */
export const COLUMNS = [
  { key: "status", label: "Status", numeric: false, value: byStatus },
  { key: "name", label: "Name", numeric: false, value: (run: RunEntry) => run.name },
  { key: "started", label: "Started", numeric: true, value: (run: RunEntry) => run.started },
  { key: "duration", label: "Duration", numeric: true, value: (run: RunEntry) => run.duration },
  { key: "step", label: "Last step", numeric: true, value: (run: RunEntry) => run.last_step },
  { key: "loss", label: "Last loss", numeric: true, value: byLoss },
  { key: "health", label: "Health", numeric: false, value: byHealth },
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
  const sortValue: SortValue = COLUMNS.find(({ key }) => key === order.key)?.value ?? byStatus;
  return runs
    .filter(({ name }) => name.toLowerCase().includes(wanted))
    .map((run) => ({ run, value: sortValue(run) }))
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
