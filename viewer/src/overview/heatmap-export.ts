import type { KindData, RunData, StatisticData } from "../api/types";
import { ZERO } from "../cells/colours";
import { cellPicture, NONFINITE, stepAxis } from "../cells/picture";
import type { Exportable } from "../charts/export";
import type { Picture } from "../charts/scene";
import type { Table } from "../charts/table";
import { ending } from "../format";
import { cellOf } from "../heatmap/band";
import type { Loader } from "../heatmap/loader";
import type { Forest } from "../heatmap/rows";
import { gridOf } from "../heatmap/view";
import type { Range } from "../time/range";

/** The longest row label, in characters. */
const LABEL = 46;

export interface Exported {
  run: RunData;
  kind: KindData;
  statistic: StatisticData;
  forest: Forest;
  loader: Loader;
  range: Range;
  /** The end of the run. */
  end: number;
}

/** The export of the heatmap of some rows. */
export function exportedHeatmap(what: Exported, rows: () => number[]): Exportable {
  const { run, kind, statistic } = what;
  return {
    name: [run.name, kind.kind, statistic.name],
    picture: () => pictureOf(what, rows()),
    table: () => cellTable(what, rows()),
  };
}

/** A table with a row for each measured cell of some rows. */
export function cellTable({ forest, loader, range, statistic }: Exported, rows: number[]): Table {
  const lines: Table["rows"] = [];
  for (const node of rows) {
    const band = loader.band(node);
    const row = band?.place.get(node);
    if (!band || row === undefined) continue;
    band.first.forEach((_, column) => {
      const cell = cellOf(band, row, column);
      if (cell.last < range.from || cell.first > range.to) return;
      if (Number.isNaN(cell.value) && cell.nonfinite === 0) return;
      lines.push([forest.path[node] ?? "", cell.first, cell.last, cell.value, cell.nonfinite]);
    });
  }
  return { head: ["path", "first_step", "last_step", statistic.name, "nonfinite"], rows: lines };
}

function pictureOf(what: Exported, rows: number[]): Picture {
  const { run, kind, statistic, forest, loader, range, end } = what;
  const unit = statistic.unit ? ` (${statistic.unit})` : "";
  const zero = { fill: ZERO.css, label: "0" };
  return cellPicture({
    title: `${run.name} · ${kind.label}: ${statistic.label}${unit}`,
    grid: gridOf(rows, loader, end),
    label: (row) => ending(forest.path[rows[row] ?? -1] ?? "", LABEL),
    labelWidth: 300,
    rowHeight: 15,
    ...stepAxis(range),
    keys: [NONFINITE, ...(loader.colours.zeros ? [zero] : [])],
  });
}
