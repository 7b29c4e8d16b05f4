import type { ComponentChildren } from "preact";
import { fromJson } from "../api/doubles";
import type { Condition, Health, JsonNumber, RunEntry, Setting } from "../api/types";
import { count, date, duration, exact, printable, short, shortened } from "../format";
import { href, setQuery } from "../route";
import { COLUMNS, type Column, type Order, spellOrder } from "./columns";
import { Sparkline } from "./sparkline";
import { StatusMark } from "./status";

interface RunsTableProps {
  runs: RunEntry[];
  /** The columns of metrics and settings. */
  extras: readonly Column[];
  order: Order;
  chosen: ReadonlySet<string>;
  choose: (id: string) => void;
}

/** Status, name and health come before the course of the loss, times after metrics and settings. */
const [STATUS, NAME, STARTED, DURATION, STEP, LOSS, HEALTH] = COLUMNS;

export function RunsTable({ runs, extras, order, chosen, choose }: RunsTableProps) {
  return (
    // Without a focus, a table that is too wide could not be scrolled with keys.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: see above.
    <section class="runs-scroll" aria-label="Table of runs" tabIndex={0}>
      <table class="runs">
        <thead>
          <tr>
            <th scope="col">
              <span class="hidden-visually">Choose</span>
            </th>
            {[STATUS, NAME, HEALTH].map((column) => (
              <Head key={column.key} column={column} order={order} />
            ))}
            <th scope="col">Loss</th>
            {[LOSS, ...extras, STEP, DURATION, STARTED].map((column) => (
              <Head key={column.key} column={column} order={order} />
            ))}
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <RunRow
              key={run.id}
              run={run}
              extras={extras}
              chosen={chosen.has(run.id)}
              choose={choose}
            />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Head({ column, order }: { column: Column; order: Order }) {
  const { key, label, numeric } = column;
  const sorted = order.key === key;
  // The first click sorts numbers descending and names ascending.
  const descending = sorted ? !order.descending : numeric;
  return (
    <th
      scope="col"
      class={numeric ? "number" : ""}
      aria-sort={!sorted ? "none" : order.descending ? "descending" : "ascending"}
    >
      <button
        type="button"
        class="sort"
        title={label}
        onClick={() => setQuery({ sort: spellOrder({ key, descending }) })}
      >
        {shortened(printable(label), 24)}
        <span class="arrow" aria-hidden="true">
          {!sorted ? "" : order.descending ? "↓" : "↑"}
        </span>
      </button>
    </th>
  );
}

interface RowProps {
  run: RunEntry;
  extras: readonly Column[];
  chosen: boolean;
  choose: (id: string) => void;
}

function RunRow({ run, extras, chosen, choose }: RowProps) {
  const broken = run.status === "broken";
  return (
    <tr class={chosen ? "chosen" : ""} data-run={run.id}>
      <td class="run-choice">
        <input
          type="checkbox"
          aria-label={`Choose ${run.name}`}
          checked={chosen}
          disabled={broken}
          onChange={() => choose(run.id)}
        />
      </td>
      <td class="run-status">
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
        <Told run={run} />
        {run.error && <span class="run-error">{run.error}</span>}
      </td>
      <td class="health" data-label="Health">
        <HealthCell health={run.health} />
      </td>
      <td class="run-course">
        <Sparkline values={run.course} />
      </td>
      <Cell label="Last loss">
        <Value value={run.loss} />
      </Cell>
      {extras.map(({ key, label, numeric }) => (
        <Cell key={key} label={label} numeric={numeric}>
          {key.startsWith("metric.") ? (
            <Value value={run.metrics?.[label] ?? null} />
          ) : (
            <SettingText value={run.config?.[label]} />
          )}
        </Cell>
      ))}
      <Cell label="Last step">{run.last_step !== null && count(run.last_step)}</Cell>
      <Cell label="Duration">{run.duration !== null && duration(run.duration)}</Cell>
      <Cell label="Started">{run.started !== null && date(run.started)}</Cell>
    </tr>
  );
}

/** A cell with its label, which narrow screens show beside it. */
function Cell({
  label,
  numeric = true,
  children,
}: {
  label: string;
  numeric?: boolean;
  children: ComponentChildren;
}) {
  return (
    <td class={numeric ? "number" : ""} data-label={printable(label)}>
      {children}
    </td>
  );
}

/** The tags and the note of a run. */
function Told({ run: { tags, note } }: { run: RunEntry }) {
  if (!tags?.length && !note) return null;
  return (
    <span class="run-told">
      {tags?.map((tag) => (
        <span key={tag} class="run-tag">
          {printable(tag)}
        </span>
      ))}
      {note && <span title={note}>{printable(note)}</span>}
    </span>
  );
}

function Value({ value }: { value: JsonNumber | null }) {
  if (value === null) return null;
  const number = fromJson(value);
  return (
    <span class={Number.isFinite(number) ? "" : "bad"} title={exact(number)}>
      {short(number)}
    </span>
  );
}

function SettingText({ value }: { value: Setting | undefined }) {
  if (value === undefined || value === null) return null;
  if (typeof value === "number") return <span title={exact(value)}>{settingNumber(value)}</span>;
  const text = printable(String(value));
  return <span title={text}>{shortened(text, 28)}</span>;
}

/** A setting is a number that somebody typed: all of its digits are shown, unless they are many. */
function settingNumber(value: number): string {
  const text = exact(value);
  return text.length <= 9 ? text : short(value);
}

const CONDITION_CLASS: Partial<Record<Condition, string>> = {
  ok: "well",
  running: "well",
  warning: "warned",
  "not diagnosed": "muted",
};

/** The condition, and what is wrong. */
function HealthCell({ health }: { health: Health | null }) {
  if (health === null) return <span class="muted">…</span>;
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
