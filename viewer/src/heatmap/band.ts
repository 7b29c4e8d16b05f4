import { decodeDoubles } from "../api/doubles";
import { joinedSteps, keptColumns } from "../api/growth";
import type { HeatmapData } from "../api/types";
import type { CellRow } from "../cells/grid";
import { spanAt } from "../cells/spans";

/** The cells of some rows, with their columns. Bands are immutable; new data makes a new band. */
export interface Band {
  nodes: number[];
  place: Map<number, number>;
  first: number[];
  last: number[];
  width: number;
  values: Float64Array;
  /** The number of elements that were not finite, by cell. */
  nonfinite: Map<number, number>;
}

export interface Cell {
  first: number;
  last: number;
  value: number;
  nonfinite: number;
}

export function bandOf(data: HeatmapData): Band {
  const columns = data.first.length;
  return {
    nodes: data.rows,
    place: new Map(data.rows.map((node, place) => [node, place])),
    first: data.first,
    last: data.last,
    width: data.width,
    values: decodeDoubles(data.values),
    nonfinite: new Map(
      data.nonfinite.map(([row, column, count]) => [row * columns + column, count]),
    ),
  };
}

/** A band with the columns of a later answer, which replace or follow the old ones. */
export function grownBand(old: Band, data: HeatmapData): Band {
  if (data.complete || data.width !== old.width) return bandOf(data);
  const fresh = bandOf(data);
  if (fresh.first.length === 0) return old;
  const kept = keptColumns(old.first, fresh.first);
  const columns = kept + fresh.first.length;
  const values = new Float64Array(old.nodes.length * columns).fill(Number.NaN);
  const nonfinite = new Map<number, number>();
  old.nodes.forEach((node, row) => {
    const from = row * old.first.length;
    values.set(old.values.subarray(from, from + kept), row * columns);
    copyCounts(old.nonfinite, from, kept, nonfinite, row * columns);
    const place = fresh.place.get(node);
    if (place === undefined) return;
    const start = place * fresh.first.length;
    values.set(fresh.values.subarray(start, start + fresh.first.length), row * columns + kept);
    copyCounts(fresh.nonfinite, start, fresh.first.length, nonfinite, row * columns + kept);
  });
  const first = joinedSteps(old.first, kept, fresh.first);
  const last = joinedSteps(old.last, kept, fresh.last);
  const { nodes, place, width } = old;
  return { nodes, place, first, last, width, values, nonfinite };
}

/** The cell that is shown for a node at a step; null if there is none. */
export function cellAt(band: Band, node: number, step: number, end: number): Cell | null {
  const cells = cellRow(band, node, end);
  const span = cells && spanAt(cells, step);
  return span && cellOf(band, band.place.get(node) ?? 0, span.column);
}

/**
 * A node's cells as a row of a cell grid; null if the band does not have the node. `end` is that of
 * the run.
 */
export function cellRow(band: Band, node: number, end: number): CellRow | null {
  const row = band.place.get(node);
  if (row === undefined) return null;
  const begin = row * band.first.length;
  const values = band.values.subarray(begin, begin + band.first.length);
  const { first, nonfinite } = band;
  const columns = { first, end };
  if (nonfinite.size === 0) return { columns, values };
  return { columns, values, nonfinite: (column) => nonfinite.has(begin + column) };
}

export function cellOf(band: Band, row: number, column: number): Cell {
  const at = row * band.first.length + column;
  return {
    first: band.first[column] ?? 0,
    last: band.last[column] ?? 0,
    value: band.values[at] ?? Number.NaN,
    nonfinite: band.nonfinite.get(at) ?? 0,
  };
}

function copyCounts(
  from: ReadonlyMap<number, number>,
  start: number,
  length: number,
  to: Map<number, number>,
  target: number,
): void {
  for (const [at, count] of from)
    if (at >= start && at < start + length) to.set(at - start + target, count);
}
