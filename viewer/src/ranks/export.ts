import type { RunData } from "../api/types";
import type { Exportable } from "../charts/export";
import { stepTicks } from "../charts/scale";
import { element, picture, text } from "../charts/svg";
import type { Table } from "../charts/table";
import { count } from "../format";
import { columnEnds } from "../heatmap/band";
import { colour } from "../theme";
import { type Range, timeScale } from "../time/range";
import type { Colouring } from "./colouring";
import { type RankTable, rowName } from "./rows";

const LEFT = 120;
const WIDTH = 820;
const TOP = 30;
const HEIGHT = 320;

/** The ranks' numbers as a picture and as a table: a line for each cell. */
export function exportedRanks(
  run: RunData,
  title: string,
  table: RankTable | null,
  range: Range,
  colouring: Colouring,
): Exportable {
  return {
    name: [run.name, "ranks", title],
    svg: () => (table ? svgOf(run, title, table, range, colouring) : ""),
    table: () => (table ? cellTable(table) : { head: [], rows: [] }),
  };
}

export function cellTable(table: RankTable): Table {
  const { first, last } = table.about;
  const rows: Table["rows"] = [];
  for (const row of table.rows)
    first.forEach((step, column) => {
      const at = row.place * first.length + column;
      const bad = table.nonfinite.get(at) ?? 0;
      const value = table.values[at] ?? Number.NaN;
      if (Number.isNaN(value) && bad === 0) return;
      const median = table.median[column] ?? Number.NaN;
      rows.push([rowName(row), step, last[column] ?? step, value, median, bad]);
    });
  return { head: ["rank", "first_step", "last_step", "value", "median", "nonfinite"], rows };
}

function svgOf(
  run: RunData,
  title: string,
  table: RankTable,
  range: Range,
  colouring: Colouring,
): string {
  const scale = timeScale(range, WIDTH);
  const height = Math.min(18, HEIGHT / table.rows.length);
  const bottom = TOP + height * table.rows.length;
  const every = Math.ceil(12 / height);
  const { first, last } = table.about;
  const ends = columnEnds(first, last);
  const parts = [
    text(12, 18, `${run.name} · ranks: ${title}`, { fill: colour("--ink"), "font-weight": 600 }),
  ];
  table.rows.forEach((row, i) => {
    const y = TOP + i * height;
    if (i % every === 0)
      parts.push(
        text(LEFT - 8, y + Math.max(height, 10) - 2, rowName(row), { "text-anchor": "end" }),
      );
    first.forEach((step, column) => {
      const at = row.place * first.length + column;
      const value = table.values[at] ?? Number.NaN;
      const left = Math.max(0, scale.x(step));
      const right = Math.min(WIDTH, scale.x(ends[column] ?? step));
      const bad = table.nonfinite.has(at);
      if (right <= left || (!bad && !Number.isFinite(value))) return;
      const fill = bad ? colour("--nonfinite") : colouring.css(value);
      parts.push(element("rect", { x: LEFT + left, y, width: right - left + 0.3, height, fill }));
    });
  });
  for (const tick of stepTicks({ low: range.from, high: range.to }, 8))
    parts.push(
      text(LEFT + scale.x(tick + 0.5), bottom + 16, count(tick), { "text-anchor": "middle" }),
    );
  parts.push(text(LEFT + WIDTH / 2, bottom + 32, "step", { "text-anchor": "middle" }));
  return picture(LEFT + WIDTH + 16, bottom + 42, title, parts.join(""));
}
