import { count, figures, printable } from "../format";
import { cellText, type Table } from "./table";

/** The greatest number of rows; more would make the page slow. Exported files have all rows. */
const MOST = 2000;

/** The numbers of a chart, also for screen readers. Titles and exported files have all digits. */
export function DataTable({ table, caption }: { table: Table; caption: string }) {
  const left = table.rows.length - MOST;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keys.
    <div class="chart-table" tabIndex={0}>
      <table>
        <caption>
          {caption}
          {left > 0 && ` (the first ${count(MOST)} rows; the CSV export has ${count(left)} more)`}
        </caption>
        <thead>
          <tr>
            {table.head.map((name, i) => (
              <th key={i} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.slice(0, MOST).map((row, i) => (
            <tr key={i}>
              {row.map((cell, j) => (
                <td key={j} title={printable(cellText(cell))}>
                  {typeof cell === "number" ? figures(cell) : printable(cell)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
