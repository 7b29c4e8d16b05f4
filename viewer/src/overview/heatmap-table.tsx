import { exact, figures, printable, stepRange } from "../format";
import { type Band, cellOf } from "../heatmap/band";
import type { Exported } from "./heatmap-export";

/** A table of the values of the visible rows, also for screen readers. */
export function HeatmapTable({ what, rows }: { what: Exported; rows: number[] }) {
  const { forest, loader, range, kind, statistic } = what;
  const first = rows[0] === undefined ? null : loader.band(rows[0]);
  const columns = first ? shownColumns(first, range) : [];
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keys.
    <div class="chart-table heat-table" tabIndex={0}>
      <table>
        <caption>
          {kind.label}: {statistic.label} of the visible rows; in brackets the number of elements
          that are NaN or Inf
        </caption>
        <thead>
          <tr>
            <th scope="col">path</th>
            {columns.map((column) => (
              <th key={column} scope="col">
                {stepRange(first?.first[column] ?? 0, first?.last[column] ?? 0)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((node) => {
            const band = loader.band(node);
            const row = band?.place.get(node);
            if (!band || row === undefined) return null;
            return (
              <tr key={node} data-path={forest.path[node]}>
                <th scope="row">{printable(forest.path[node] ?? "")}</th>
                {columns.map((column) => {
                  const cell = cellOf(band, row, column);
                  const measured = !Number.isNaN(cell.value) || cell.nonfinite > 0;
                  return (
                    <td
                      key={column}
                      title={measured ? exact(cell.value) : ""}
                      data-first={cell.first}
                      data-nonfinite={cell.nonfinite}
                    >
                      {measured ? figures(cell.value) : ""}
                      {cell.nonfinite > 0 && ` (${cell.nonfinite})`}
                    </td>
                  );
                })}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function shownColumns(band: Band, range: { from: number; to: number }): number[] {
  return [...band.first.keys()].filter(
    (column) => (band.last[column] ?? 0) >= range.from && (band.first[column] ?? 0) < range.to,
  );
}
