import { exact } from "../format";
import type { LineModel } from "./model";

/** The numbers of a chart. */
export interface Table {
  head: string[];
  rows: (number | string)[][];
}

export function cellText(cell: number | string): string {
  return typeof cell === "number" ? exact(cell) : cell;
}

/** Comma-separated values as in RFC 4180, with all digits. */
export function csvText({ head, rows }: Table): string {
  return [head, ...rows]
    .map((row) => row.map((cell) => quoted(cellText(cell))).join(","))
    .join("\r\n")
    .concat("\r\n");
}

/** The table of a line chart, with a row for each position. */
export function lineTable({ axis, lines, bands = [], marks = [] }: LineModel): Table {
  const marked = new Map(marks.map(({ index, text }) => [index, text]));
  const head = [
    ...axis.head,
    ...lines.flatMap(({ name, raw }) => (raw ? [name, `${name} smoothed`] : [name])),
    ...bands.flatMap(({ name }) => [`${name} low`, `${name} high`]),
    ...(marks.length > 0 ? ["marked"] : []),
  ];
  const rows = Array.from(axis.position, (_, i) => [
    ...axis.cells(i),
    ...lines.flatMap(({ values, raw }) =>
      (raw ? [raw, values] : [values]).map((own) => own[i] ?? ""),
    ),
    ...bands.flatMap(({ low, high }) => [low[i] ?? "", high[i] ?? ""]),
    ...(marks.length > 0 ? [marked.get(i) ?? ""] : []),
  ]);
  return { head, rows };
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
