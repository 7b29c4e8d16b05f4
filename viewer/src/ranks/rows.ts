import { decodeDoubles } from "../api/doubles";
import type { Finding, Processes, RanksData, Severity, Status } from "../api/types";
import type { ColourScale } from "../cells/colour-scale";
import type { CellColumns, CellGrid } from "../cells/grid";
import { count } from "../format";

/** A row of the heatmap: one rank or several neighbouring ranks. */
export interface RankRow {
  /** Its index in the answer of the server. */
  place: number;
  ranks: number[];
  /** The greatest severity of findings about its ranks. */
  severity: Severity | null;
  /** The worst status of its ranks. */
  status: Status | null;
  /** The mean of its values, by which rows can be sorted. */
  mean: number;
}

/** The decoded values of a number on all ranks. */
export interface RankTable {
  about: RanksData;
  values: Float64Array;
  median: Float64Array;
  /** The number of values that are not finite, by cell. */
  nonfinite: Map<number, number>;
  rows: RankRow[];
  columns: CellColumns;
}

export type Order = "rank" | "value";

const WORST: Status[] = ["crashed", "empty", "live", "finished"];
const SEVEREST: Severity[] = ["error", "warning", "info"];

/** The rank that a finding names; null if it names none. */
export function rankOf({ evidence }: Finding): number | null {
  const { rank } = evidence;
  return typeof rank === "number" ? rank : null;
}

/** The greatest severity of the findings about each rank. */
export function severities(findings: readonly Finding[]): Map<number, Severity> {
  const found = new Map<number, Severity>();
  for (const finding of findings) {
    const rank = rankOf(finding);
    if (rank === null) continue;
    const known = found.get(rank);
    if (known === undefined || SEVEREST.indexOf(finding.severity) < SEVEREST.indexOf(known))
      found.set(rank, finding.severity);
  }
  return found;
}

/** The rows of an answer; `end` is that of the run. */
export function rankTable(
  about: RanksData,
  processes: Processes,
  findings: readonly Finding[],
  order: Order,
  end: number,
): RankTable {
  const values = decodeDoubles(about.values);
  const width = about.first.length;
  const named = severities(findings);
  const statuses = new Map(processes.rank.map((rank, i) => [rank, processes.status[i]]));
  const rows: RankRow[] = [];
  for (let first = 0; first < about.ranks.length; first += about.together) {
    const place = rows.length;
    const ranks = about.ranks.slice(first, first + about.together);
    const own = values.subarray(place * width, (place + 1) * width).filter(Number.isFinite);
    rows.push({
      place,
      ranks,
      severity: worst(
        ranks.map((rank) => named.get(rank)),
        SEVEREST,
      ),
      status: worst(
        ranks.map((rank) => statuses.get(rank)),
        WORST,
      ),
      mean: own.length > 0 ? own.reduce((sum, value) => sum + value, 0) / own.length : Number.NaN,
    });
  }
  // Rows without values come last.
  if (order === "value")
    rows.sort((a, b) => (b.mean - a.mean || 0) + (+Number.isNaN(a.mean) - +Number.isNaN(b.mean)));
  const nonfinite = new Map(
    about.nonfinite.map(([row, column, number]) => [row * width + column, number]),
  );
  const { first } = about;
  const columns = { first, end };
  return { about, values, median: decodeDoubles(about.median), nonfinite, rows, columns };
}

/** The table as rows of cells; no rows while it is loading. */
export function rankGrid(table: RankTable | null, colours: ColourScale): CellGrid {
  if (table === null) return { rows: 0, row: () => null, colours };
  const { rows, columns, values, nonfinite } = table;
  const width = columns.first.length;
  return {
    rows: rows.length,
    row: (index) => {
      const begin = (rows[index]?.place ?? 0) * width;
      return {
        columns,
        values: values.subarray(begin, begin + width),
        nonfinite: (column) => nonfinite.has(begin + column),
      };
    },
    colours,
  };
}

/** "rank 3", or "ranks 4 – 7". */
export function rowName(ranks: readonly number[]): string {
  const [first, last] = [ranks[0] ?? 0, ranks.at(-1) ?? 0];
  return first === last ? `rank ${count(first)}` : `ranks ${count(first)} – ${count(last)}`;
}

function worst<T>(found: (T | undefined)[], order: readonly T[]): T | null {
  return order.find((one) => found.includes(one)) ?? null;
}
