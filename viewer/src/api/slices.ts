import { decodeDoubles, encodeDoubles } from "./doubles";
import type { HeatmapRequest, Window } from "./source";
import type {
  Columns,
  Doubles,
  HeatmapData,
  NumbersData,
  RankBand,
  RanksData,
  SeriesData,
} from "./types";

/**
 * The columns that overlap a window, and those next to it, which lines and held values need: the
 * first one, and the end.
 */
export function columnRange(columns: Columns, window: Window): [begin: number, end: number] {
  const { from = Number.NEGATIVE_INFINITY, to = Number.POSITIVE_INFINITY } = window;
  let begin = 0;
  let end = columns.first.length;
  while (begin < end && (columns.last[begin] ?? 0) < from) begin++;
  while (end > begin && (columns.first[end - 1] ?? 0) > to) end--;
  if (begin > 0 && (columns.first[begin] ?? to + 1) > from) begin--;
  if (end < columns.first.length && (columns.last[end - 1] ?? from - 1) < to) end++;
  return [begin, end];
}

/** The requested rows and columns of a heatmap. Rows that it does not have are left out. */
export function sliceHeatmap(heatmap: HeatmapData, request: HeatmapRequest): HeatmapData {
  const [begin, end] = columnRange(heatmap, request);
  const all = decodeDoubles(heatmap.values);
  const width = heatmap.first.length;
  const places = new Map(heatmap.rows.map((row, place) => [row, place]));
  const rows = request.rows.filter((row) => places.has(row));
  const values = new Float64Array(rows.length * (end - begin));
  const moved = new Map<number, number>();
  rows.forEach((row, i) => {
    const place = places.get(row) ?? 0;
    moved.set(place, i);
    values.set(all.subarray(place * width + begin, place * width + end), i * (end - begin));
  });
  const nonfinite: HeatmapData["nonfinite"] = [];
  for (const [row, column, count] of heatmap.nonfinite) {
    const place = moved.get(row);
    if (place !== undefined && column >= begin && column < end)
      nonfinite.push([place, column - begin, count]);
  }
  return {
    ...heatmap,
    ...sliceColumns(heatmap, begin, end),
    rows,
    values: encodeDoubles(values),
    nonfinite,
  };
}

export function sliceNumbers(data: NumbersData, window: Window): NumbersData {
  return {
    numbers: data.numbers.map((one) => {
      const [begin, end] = columnRange(one, window);
      return {
        ...one,
        ...sliceColumns(one, begin, end),
        values: sliceDoubles(one.values, begin, end),
        ranks: one.ranks && sliceBand(one.ranks, begin, end),
      };
    }),
  };
}

export function sliceRanks(data: RanksData, window: Window): RanksData {
  const [begin, end] = columnRange(data, window);
  const width = data.first.length;
  const all = decodeDoubles(data.values);
  const rows = Math.ceil(data.ranks.length / data.together);
  const values = new Float64Array(rows * (end - begin));
  for (let row = 0; row < rows; row++)
    values.set(all.subarray(row * width + begin, row * width + end), row * (end - begin));
  return {
    ...data,
    ...sliceColumns(data, begin, end),
    ...sliceBand(data, begin, end),
    values: encodeDoubles(values),
    nonfinite: data.nonfinite
      .filter(([, column]) => column >= begin && column < end)
      .map(([row, column, count]) => [row, column - begin, count]),
  };
}

export function sliceSeries(series: SeriesData, window: Window): SeriesData {
  const [begin, end] = columnRange(series, window);
  const cut = (values: Doubles) => sliceDoubles(values, begin, end);
  return {
    ...series,
    ...sliceColumns(series, begin, end),
    statistics: Object.fromEntries(
      Object.entries(series.statistics).map(([name, values]) => [name, cut(values)]),
    ),
    zeros: cut(series.zeros),
    nonfinite: cut(series.nonfinite),
  };
}

function sliceColumns(columns: Columns, begin: number, end: number): Columns {
  return {
    first: columns.first.slice(begin, end),
    last: columns.last.slice(begin, end),
    width: columns.width,
    complete: true,
  };
}

function sliceBand(band: RankBand<Doubles>, begin: number, end: number): RankBand<Doubles> {
  return {
    low: sliceDoubles(band.low, begin, end),
    median: sliceDoubles(band.median, begin, end),
    high: sliceDoubles(band.high, begin, end),
  };
}

function sliceDoubles(values: Doubles, begin: number, end: number): Doubles {
  return encodeDoubles(decodeDoubles(values).slice(begin, end));
}
