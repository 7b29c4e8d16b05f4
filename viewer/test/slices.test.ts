import { expect, test } from "vitest";
import { decodeDoubles, encodeDoubles } from "../src/api/doubles";
import {
  columnRange,
  sliceHeatmap,
  sliceNumbers,
  sliceRanks,
  sliceSeries,
} from "../src/api/slices";
import type { HeatmapData, RanksData, SeriesData } from "../src/api/types";

const COLUMNS = { first: [1, 3, 5, 7], last: [2, 4, 6, 8], width: 2, complete: true };
const doubles = (...values: number[]) => encodeDoubles(Float64Array.of(...values));
const numbers = (text: string) => [...decodeDoubles(text)];

test("a window contains the columns that overlap it, and those next to it", () => {
  expect(columnRange(COLUMNS, { columns: 9 })).toEqual([0, 4]);
  expect(columnRange(COLUMNS, { columns: 9, from: 4, to: 5 })).toEqual([1, 3]);
  expect(columnRange(COLUMNS, { columns: 9, from: 9 })).toEqual([3, 4]);
  const seldom = { ...COLUMNS, first: [1, 30, 50, 70], last: [1, 30, 50, 70] };
  expect(columnRange(seldom, { columns: 9, from: 40, to: 60 })).toEqual([1, 4]);
  expect(columnRange(seldom, { columns: 9, from: 35, to: 40 })).toEqual([1, 3]);
  expect(columnRange(seldom, { columns: 9, from: 0, to: 0 })).toEqual([0, 1]);
});

test("a heatmap is cut by rows and columns", () => {
  const heatmap = {
    ...COLUMNS,
    rows: [10, 20, 30],
    values: doubles(11, 12, 13, 14, 21, 22, 23, 24, 31, 32, 33, 34),
    nonfinite: [
      [0, 1, 5],
      [2, 0, 6],
      [2, 2, 7],
    ],
  } as unknown as HeatmapData;
  const request = { kind: "", statistic: "", revision: "", columns: 9 };
  const cut = sliceHeatmap(heatmap, { ...request, rows: [30, 99, 10], from: 3, to: 6 });
  expect(cut.rows).toEqual([30, 10]);
  expect(cut.first).toEqual([3, 5]);
  expect(cut.last).toEqual([4, 6]);
  expect(numbers(cut.values)).toEqual([32, 33, 12, 13]);
  expect(cut.nonfinite).toHaveLength(2);
  expect(cut.nonfinite).toContainEqual([1, 0, 5]);
  expect(cut.nonfinite).toContainEqual([0, 1, 7]);
});

test("numbers are cut with the band of their ranks", () => {
  const band = { low: doubles(1, 2, 3, 4), median: doubles(2, 3, 4, 5), high: doubles(3, 4, 5, 6) };
  const one = { ...COLUMNS, kind: "loss", path: "loss", values: doubles(9, 8, 7, 6), ranks: band };
  const [cut] = sliceNumbers({ numbers: [one] }, { columns: 9, to: 4 }).numbers;
  expect(numbers(cut?.values ?? "")).toEqual([9, 8]);
  expect(numbers(cut?.ranks?.high ?? "")).toEqual([3, 4]);
});

test("ranks are cut row by row", () => {
  const ranks = {
    ...COLUMNS,
    ranks: [0, 1, 2],
    together: 2,
    values: doubles(1, 2, 3, 4, 5, 6, 7, 8),
    low: doubles(1, 2, 3, 4),
    median: doubles(1, 2, 3, 4),
    high: doubles(1, 2, 3, 4),
    nonfinite: [
      [1, 3, 1],
      [0, 0, 2],
    ],
  } as unknown as RanksData;
  const cut = sliceRanks(ranks, { columns: 9, from: 5 });
  expect(numbers(cut.values)).toEqual([3, 4, 7, 8]);
  expect(numbers(cut.median)).toEqual([3, 4]);
  expect(cut.nonfinite).toEqual([[1, 1, 1]]);
});

test("all statistics of a series are cut", () => {
  const series = {
    ...COLUMNS,
    statistics: { l2: doubles(1, 2, 3, 4) },
    zeros: doubles(0, 0, 1, 1),
    nonfinite: doubles(0, 1, 0, 1),
  } as unknown as SeriesData;
  const cut = sliceSeries(series, { columns: 9, from: 3, to: 4 });
  expect(numbers(cut.statistics.l2 ?? "")).toEqual([2]);
  expect(numbers(cut.nonfinite)).toEqual([1]);
});
