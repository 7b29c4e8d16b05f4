import { fromJson } from "../api/doubles";
import type { Condition, JsonNumber, RunEntry, Setting, Status } from "../api/types";

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

export type SortValue = number | string | null;

/** A column of the table, by which runs can be sorted. Unknown values are null. */
export interface Column {
  /** Its name in the address. */
  key: string;
  label: string;
  /** Whether values are aligned as numbers; the first click then sorts them descending. */
  numeric: boolean;
  value: (run: RunEntry) => SortValue;
}

const known = (value: JsonNumber | null | undefined): number | null => {
  const number = value === null || value === undefined ? Number.NaN : fromJson(value);
  return Number.isNaN(number) ? null : number;
};

/** The columns that every table has. */
export const COLUMNS = [
  {
    key: "status",
    label: "Status",
    numeric: false,
    value: ({ status }: RunEntry) => status && STATUS_ORDER.indexOf(status),
  },
  { key: "name", label: "Name", numeric: false, value: (run: RunEntry) => run.name },
  { key: "started", label: "Started", numeric: true, value: (run: RunEntry) => run.started },
  { key: "duration", label: "Duration", numeric: true, value: (run: RunEntry) => run.duration },
  { key: "step", label: "Last step", numeric: true, value: (run: RunEntry) => run.last_step },
  { key: "loss", label: "Last loss", numeric: true, value: (run: RunEntry) => known(run.loss) },
  {
    key: "health",
    label: "Health",
    numeric: false,
    value: ({ health }: RunEntry) =>
      health && CONDITION_ORDER.indexOf(health.condition) * 1e6 + health.errors + health.warnings,
  },
] as const satisfies readonly Column[];

/** The column of a metric: its last value in each run. */
export function metricColumn(name: string): Column {
  return {
    key: `metric.${name}`,
    label: name,
    numeric: true,
    value: (run) => known(run.metrics?.[name]),
  };
}

/** The column of a setting. Numbers are sorted as numbers, and before all else. */
export function settingColumn(name: string, runs: readonly RunEntry[]): Column {
  const values = runs.map((run) => run.config?.[name]).filter((one) => one !== undefined);
  return {
    key: `config.${name}`,
    label: name,
    numeric: values.every((one) => one === null || typeof one === "number"),
    value: (run) => settingValue(run.config?.[name]),
  };
}

function settingValue(value: Setting | undefined): SortValue {
  if (value === undefined || value === null) return null;
  return typeof value === "number" ? value : String(value);
}

/** Metrics and settings that some run has, in the order in which they are met. */
export interface Extras {
  metrics: Column[];
  settings: Column[];
}

export function extrasOf(runs: readonly RunEntry[]): Extras {
  const names = (of: (run: RunEntry) => object | null) => [
    ...new Set(runs.flatMap((run) => Object.keys(of(run) ?? {}))),
  ];
  return {
    metrics: names(({ metrics }) => metrics).map(metricColumn),
    settings: names(({ config }) => config).map((name) => settingColumn(name, runs)),
  };
}

const FEW = { metrics: 4, settings: 6 };

/**
 * The columns of metrics and settings to show. Without a choice: the first few metrics, those of
 * validation first, and the first few settings that are not the same in all runs.
 */
export function shownExtras(
  { metrics, settings }: Extras,
  runs: readonly RunEntry[],
  chosen: string | undefined,
): Column[] {
  const all = [...metrics, ...settings];
  if (chosen !== undefined && chosen !== "") {
    const keys = chosen.split(",");
    return all.filter(({ key }) => keys.includes(spelled(key)));
  }
  const isValidation = ({ label }: Column) => /(^|\/)val_/.test(label);
  const first = [...metrics].sort((a, b) => Number(isValidation(b)) - Number(isValidation(a)));
  const differing = settings.filter(({ value }) => new Set(runs.map(value)).size > 1);
  const shown = new Set([
    ...first.slice(0, FEW.metrics),
    ...(runs.length > 1 ? differing : settings).slice(0, FEW.settings),
  ]);
  return all.filter((column) => shown.has(column));
}

/** The choice of columns for the address; "none" if there is none. */
export function spellChoice(columns: readonly Column[]): string {
  return columns.map(({ key }) => spelled(key)).join(",") || "none";
}

function spelled(key: string): string {
  return encodeURIComponent(key);
}

export interface Order {
  key: string;
  descending: boolean;
}

/** The order in an address: "name", or "-started" for descending. The newest is first by default. */
export function parseOrder(text: string, columns: readonly Column[] = COLUMNS): Order {
  const key = text.replace(/^-/, "");
  const isKnown = columns.some((column) => column.key === key);
  return isKnown ? { key, descending: text.startsWith("-") } : NEWEST;
}

export const NEWEST: Order = { key: "started", descending: true };

export function spellOrder({ key, descending }: Order): string {
  if (key === NEWEST.key && descending === NEWEST.descending) return "";
  return `${descending ? "-" : ""}${key}`;
}

/**
 * The runs that contain all words of the text in their name, tags, note or settings ("lr=0.1"), in
 * order. Unknown values come last.
 */
export function arranged(
  runs: readonly RunEntry[],
  columns: readonly Column[],
  order: Order,
  text: string,
): RunEntry[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const sign = order.descending ? -1 : 1;
  const column = columns.find(({ key }) => key === order.key) ?? COLUMNS[2];
  return runs
    .filter((run) => contains(run, text.trim().toLowerCase(), words))
    .map((run) => ({ run, value: column.value(run) }))
    .sort((a, b) => {
      if (a.value === null || b.value === null)
        return Number(a.value === null) - Number(b.value === null);
      if (a.value === b.value) return names.compare(a.run.name, b.run.name);
      if (typeof a.value === "number" && typeof b.value === "number")
        return sign * (a.value - b.value);
      if (typeof a.value === "string" && typeof b.value === "string")
        return sign * names.compare(a.value, b.value);
      return sign * (typeof a.value === "number" ? -1 : 1);
    })
    .map(({ run }) => run);
}

function contains(run: RunEntry, whole: string, words: readonly string[]): boolean {
  if (run.name.toLowerCase().includes(whole)) return true;
  const settings = Object.entries(run.config ?? {}).map(([name, value]) => `${name}=${value}`);
  const all = [run.name, ...(run.tags ?? []), run.note ?? "", ...settings].join("\n").toLowerCase();
  return words.every((word) => all.includes(word));
}

/** run2 comes before run10. */
const names = new Intl.Collator("en", { numeric: true });
