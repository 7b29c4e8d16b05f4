import { expect, test } from "vitest";
import { encodeDoubles } from "../src/api/doubles";
import type { ComparisonData, StatisticData } from "../src/api/types";
import { heldSpans } from "../src/cells/spans";
import { DistanceColours } from "../src/compare/colours";
import {
  apart,
  colourLimit,
  decodeComparison,
  distances,
  measureOf,
  mostDifferent,
} from "../src/compare/comparison";
import { cellOrLabelAt, comparisonGrid, gridLayout, ROW } from "../src/compare/grid-layout";
import {
  columnText,
  counterpartText,
  matchedText,
  mergedText,
  onlyText,
} from "../src/compare/words";

const DATA = {
  runs: [
    { id: "a", name: "first" },
    { id: "b", name: "second" },
  ],
  align: "step",
  paths: ["net/a", "net/a/kernel", "net/b"],
  merged: [true, false, false],
  matched: ["name", "name", "shape"],
  counterparts: [["net_1/a_1", "net_1/a_1/kernel", "other"]],
  only: [0, 2],
  position: encodeDoubles(Float64Array.of(0, 10)),
  ends: [20, 16],
  width: 10,
  // Runs by paths by columns.
  values: encodeDoubles(Float64Array.of(1, 1, 1, 1, 2, 4, 2, 8, 1, 1, 0, Number.NaN)),
  nonfinite: [[1, 3, 1]],
  model: encodeDoubles(Float64Array.of(5, 5, 10, 5)),
} as unknown as ComparisonData;
const COMPARISON = decodeComparison(DATA);

test("a value that is NaN is told from one that was not measured", () => {
  expect(COMPARISON.isBad(1, 3, 1)).toBe(true);
  expect(COMPARISON.isBad(0, 3, 1)).toBe(false);
});

test("values are found by run, row and column", () => {
  expect(COMPARISON.value(0, 3, 1)).toBe(4);
  expect(COMPARISON.value(1, 1, 1)).toBe(8);
  expect(COMPARISON.value(2, 0, 0)).toBeNaN();
});

test("the first row is the whole model", () => {
  expect(COMPARISON.about.paths[0]).toBe("model");
  expect([0, 1].map((column) => COMPARISON.value(1, 0, column))).toEqual([10, 5]);
});

test("it is said by what layers were matched", () => {
  expect(matchedText(COMPARISON)).toBe(
    "Layers are matched 2 rows by path without the model's name and counters, 1 row by position and shape.",
  );
  expect(counterpartText(COMPARISON, 1, 0)).toBe("");
  expect(counterpartText(COMPARISON, 1, 1)).toContain("net_1/a_1 in second, matched by path");
  expect(counterpartText(COMPARISON, 1, 3)).toContain("other in second, matched by position");
  const same = { ...COMPARISON, about: { ...COMPARISON.about, matched: [null, "path" as const] } };
  expect(matchedText(same)).toBe("Layers are matched by path.");
  expect(counterpartText(same, 1, 1)).toBe("");
  const none = { ...COMPARISON, about: { ...COMPARISON.about, matched: [null] } };
  expect(matchedText(none)).toContain("The whole model and the losses are compared.");
});

test("magnitudes are compared by doublings, others by difference", () => {
  expect(apart(2, 16, "ratio")).toBe(3);
  expect(apart(0, 0, "ratio")).toBe(0);
  expect(apart(0, 1, "ratio")).toBe(Number.POSITIVE_INFINITY);
  expect(apart(1, 0, "ratio")).toBe(Number.NEGATIVE_INFINITY);
  expect(apart(2, -1, "difference")).toBe(-3);
  expect(measureOf({ scale: "log" } as StatisticData)).toBe("ratio");
  expect(measureOf({ scale: "signed" } as StatisticData)).toBe("difference");
});

test("distances are rows by columns", () => {
  expect([...distances(COMPARISON, 1, "ratio")]).toEqual([
    ...[1, 0],
    ...[1, 3],
    ...[0, 0],
    ...[Number.NEGATIVE_INFINITY, Number.NaN],
  ]);
});

test("layers are ranked by their mean distance, without the parts of layers", () => {
  const ranked = mostDifferent(COMPARISON, distances(COMPARISON, 1, "ratio"));
  expect(ranked).toEqual([
    { row: 3, path: "net/b", score: 32, last: Number.NEGATIVE_INFINITY, lastColumn: 0 },
    { row: 1, path: "net/a", score: 2, last: 3, lastColumn: 1 },
  ]);
});

test("the colour limit is round and covers most distances", () => {
  expect(colourLimit(Float64Array.of(0.1, -0.4, Number.NaN), "ratio")).toBe(0.5);
  expect(colourLimit(Float64Array.of(3, -3, Number.POSITIVE_INFINITY), "ratio")).toBe(4);
  expect(colourLimit(Float64Array.of(100), "ratio")).toBe(32);
  expect(colourLimit(Float64Array.of(0.013, 0.013), "difference")).toBeCloseTo(0.02, 12);
  expect(colourLimit(Float64Array.of(0), "difference")).toBe(1);
  // One outlier of a hundred does not count.
  const outlier = Float64Array.from({ length: 100 }, (_, i) => (i === 0 ? 1000 : 1));
  expect(colourLimit(outlier, "ratio")).toBe(1);
});

test("it is said where the last distance is", () => {
  expect(columnText(COMPARISON, 1)).toBe("at steps 10 to 19");
  const each = { ...COMPARISON, about: { ...COMPARISON.about, width: 1 } };
  expect(columnText(each, 1)).toBe("at step 10");
  const about = { ...COMPARISON.about, width: 0.1, align: "fraction" as const };
  const shares = { ...COMPARISON, about, position: Float64Array.of(0.8, 0.9) };
  expect(columnText(shares, 1)).toBe("at 90 % to 100 % of training");
});

test("cells end where the first of both runs ends", () => {
  const far = distances(COMPARISON, 1, "ratio");
  const grid = comparisonGrid(COMPARISON, 1, far, new DistanceColours(1, "ratio"));
  const row = grid.row(1);
  expect(row && [...heldSpans(row)].at(-1)).toEqual({ column: 1, begin: 10, end: 16 });
  expect(gridLayout(COMPARISON, 600).scale.range).toEqual({ from: 0, to: 20 });
});

test("a point is on a cell, on a label or outside", () => {
  const grid = comparisonGrid(
    COMPARISON,
    1,
    distances(COMPARISON, 1, "ratio"),
    new DistanceColours(1, "ratio"),
  );
  const layout = gridLayout(COMPARISON, 600);
  // The labels are as wide as the longest path in bold: 12 characters of 7 pixels and 12 more.
  expect(layout.left).toBe(96);
  expect(layout.scale.width).toBe(600 - 12 - 96);
  const view = { scale: layout.scale, rowHeight: ROW, scrolled: 0, height: 4 * ROW };
  const at = (x: number, y: number) => cellOrLabelAt(grid, layout, view, { x, y });
  expect(at(50, 20)).toEqual({ row: 1, column: null });
  expect(at(96 + 100, 20)).toEqual({ row: 1, column: 0 });
  expect(at(96 + 300, 40)).toEqual({ row: 2, column: 1 });
  expect(at(595, 20)).toBeNull();
  expect(at(50, 4 * ROW)).toBeNull();
});

test("what is not compared is counted", () => {
  expect(onlyText(COMPARISON)).toContain("2 tensors of second");
  expect(onlyText({ ...COMPARISON, about: { ...COMPARISON.about, only: [0, 0] } })).toBe("");
  expect(mergedText(COMPARISON, 3)).toBe("");
  const blocks = {
    ...COMPARISON,
    about: { ...COMPARISON.about, merged: [true, true, true, true] },
  };
  expect(mergedText(blocks, 1000)).toContain("1,000 tensors");
});
