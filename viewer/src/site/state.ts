import type { ScaleKind } from "../charts/scale";
import type { Query } from "../route";
import type { Range } from "../time/range";

/** The state of a site's page in the address: the shown steps and the scales of charts. */

export function rangeOf(from: string, to: string): Range | null {
  if (from === "" || to === "") return null;
  const range = { from: Number(from), to: Number(to) };
  return range.from < range.to ? range : null;
}

export function rangeQuery(range: Range | null): Query {
  return { from: range ? String(range.from) : "", to: range ? String(range.to) : "" };
}

/** The scale that the user has chosen for a chart; null if none. */
export function scaleOf({ scales = "" }: Query, chart: string): ScaleKind | null {
  const chosen = scales.split(",").find((one) => one.startsWith(`${chart}.`));
  if (chosen?.endsWith(".log")) return "log";
  return chosen?.endsWith(".linear") ? "linear" : null;
}

export function scaleQuery({ scales = "" }: Query, chart: string, scale: ScaleKind): Query {
  const others = scales.split(",").filter((one) => one !== "" && !one.startsWith(`${chart}.`));
  return { scales: [...others, `${chart}.${scale}`].join(",") };
}
