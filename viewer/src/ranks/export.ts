import type { RunData } from "../api/types";
import { cellPicture, NONFINITE, stepAxis } from "../cells/picture";
import type { Exportable } from "../charts/export";
import type { Table } from "../charts/table";
import type { Range } from "../time/range";
import type { RankColours } from "./colours";
import { type RankTable, rankGrid, rowName } from "./rows";

/** The height of all rows together, and the greatest height of one. */
const HEIGHT = 320;
const HIGHEST = 18;

/** The export of the heatmap of ranks. */
export function exportedRanks(
  run: RunData,
  title: string,
  table: RankTable | null,
  range: Range,
  colours: RankColours,
): Exportable {
  const rows = table?.rows ?? [];
  return {
    name: [run.name, "ranks", title],
    picture: () =>
      cellPicture({
        title: `${run.name} · ranks: ${title}`,
        grid: rankGrid(table, colours),
        label: (row) => rowName(rows[row]?.ranks ?? []),
        labelWidth: 120,
        rowHeight: Math.min(HIGHEST, HEIGHT / Math.max(1, rows.length)),
        ...stepAxis(range),
        keys: [NONFINITE],
      }),
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
      rows.push([rowName(row.ranks), step, last[column] ?? step, value, median, bad]);
    });
  return { head: ["rank", "first_step", "last_step", "value", "median", "nonfinite"], rows };
}
