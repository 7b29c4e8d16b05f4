import { describe, expect, test } from "vitest";
import { encodeDoubles } from "../src/api/doubles";
import { joinedSteps, joinedValues, keptColumns } from "../src/api/growth";
import type { Finding, Processes, RanksData, SeriesData } from "../src/api/types";
import { decodeDistribution, quantile, share } from "../src/charts/distribution";
import { ridgeAt, ridgeLayout, ridgeOutline } from "../src/charts/ridge-layout";
import { grouped, type NumberSeries, nameOf } from "../src/overview/numbers";
import { nearestColumn, stripLayout } from "../src/overview/strip-layout";
import { nonfiniteMarks, stripScene } from "../src/overview/strip-scene";
import { RankColours } from "../src/ranks/colours";
import { rankGrid, rankTable, rowName } from "../src/ranks/rows";
import { decodeSeries, mergeSeries } from "../src/site/series";
import { timeScale } from "../src/time/range";

const doubles = (...values: number[]) => encodeDoubles(Float64Array.of(...values));

function series(path: string, values: number[], kind = "loss"): NumberSeries {
  const first = values.map((_, i) => 10 * i);
  const last = first.map((step) => step + 9);
  return { kind, path, first, last, width: 10, values: Float64Array.from(values), ranks: null };
}

describe("joining", () => {
  test("columns from the first new one on are replaced", () => {
    expect(keptColumns([1, 3, 5], [5, 7])).toBe(2);
    expect(keptColumns([1, 3, 5], [])).toBe(3);
    expect(keptColumns([], [1])).toBe(0);
    expect(joinedSteps([1, 3, 5], 2, [5, 7])).toEqual([1, 3, 5, 7]);
    expect([...joinedValues(Float64Array.of(1, 2, 3), 2, Float64Array.of(9))]).toEqual([1, 2, 9]);
    // What was not known before is not measured.
    expect([...joinedValues(new Float64Array(), 1, Float64Array.of(9))]).toEqual([Number.NaN, 9]);
  });

  test("a series grows at its end", () => {
    const data = (first: number[], l2: number[]) =>
      decodeSeries({
        ...{ kind: "k", path: "p", first, last: first, width: 1, complete: false },
        statistics: { l2: doubles(...l2) },
        zeros: doubles(...l2.map(() => 0)),
        nonfinite: doubles(...l2.map(() => 0)),
      } as unknown as SeriesData);
    const grown = mergeSeries(data([1, 2], [10, 20]), data([2, 3], [21, 30]));
    expect(grown.about.first).toEqual([1, 2, 3]);
    expect([...(grown.statistics.l2 ?? [])]).toEqual([10, 21, 30]);
    expect(grown.zeros).toHaveLength(3);
    const same = mergeSeries(data([1, 2], [10, 20]), data([], []));
    expect(same.about.first).toEqual([1, 2]);
    expect([...(same.statistics.l2 ?? [])]).toEqual([10, 20]);
  });
});

describe("strips", () => {
  test("losses share charts of four, learning rates come before other numbers", () => {
    const losses = ["a", "b", "c", "d", "e"].map((path) => series(path, [1]));
    const others = [series("step_seconds", [1], "scalar"), series("learning_rate", [1], "scalar")];
    const groups = grouped([...others, ...losses]);
    expect(groups.map(({ title }) => title)).toEqual([
      "loss",
      "loss",
      "learning rate",
      "step seconds",
    ]);
    expect(groups[0]?.series).toHaveLength(4);
    expect(nameOf({ kind: "metric", path: "top_5" })).toBe("metric top 5");
  });

  const scale = timeScale({ from: 0, to: 40 }, 400);

  test("values that span more than a factor of 30 get a log axis", () => {
    const kind = (...values: number[]) =>
      stripLayout({ title: "", series: [series("a", values)] }, scale, 60).kind;
    expect(kind(1, 100)).toBe("log");
    expect(kind(1, 29)).toBe("linear");
    expect(kind(0, 100)).toBe("linear");
  });

  test("the greatest value is at the top", () => {
    const layout = stripLayout({ title: "", series: [series("a", [0, 5])] }, scale, 60);
    expect(layout.y(0)).toBe(59);
    expect(layout.y(5.3)).toBeCloseTo(1, 9);
  });

  test("the nearest column is found by its middle", () => {
    const one = series("a", [1, 2, 3]);
    expect(nearestColumn(one, 0)).toBe(0);
    expect(nearestColumn(one, 10)).toBe(1);
    expect(nearestColumn(one, 999)).toBe(2);
    expect(nearestColumn(series("a", []), 5)).toBe(-1);
  });

  test("a value that is not finite is marked until the next one, the last to the end", () => {
    const one = series("a", [1, Number.NaN, 3, Number.POSITIVE_INFINITY]);
    expect(nonfiniteMarks(one, scale, 38)).toEqual([
      { x: 100, width: 100 },
      { x: 300, width: 80 },
    ]);
    const seldom = { ...series("a", [Number.NaN, 1]), first: [3, 20], last: [3, 20] };
    expect(nonfiniteMarks(seldom, scale, 40)).toEqual([{ x: 30, width: 170 }]);
    const zoomed = timeScale({ from: 20, to: 30 }, 100);
    expect(nonfiniteMarks(series("a", [Number.NaN, 1]), zoomed, 40)).toEqual([]);
  });

  test("a strip has its grid, its line and a dot for a lone point", () => {
    const group = { title: "", series: [series("a", [1, Number.NaN, 2])] };
    const layout = stripLayout(group, scale, 60);
    const shapes = stripScene(group, scale, layout, { height: 60, end: 40 }).filter(
      ({ type }) => type === "path",
    );
    expect(shapes.filter((one) => "stroke" in one && one.stroke === "--grid")).toHaveLength(
      layout.ticks.length,
    );
    const filled = shapes.filter((one) => "fill" in one && one.fill === "--series-1");
    expect(filled).toHaveLength(2);
  });
});

describe("ranks", () => {
  const about = {
    ranks: [0, 1, 2],
    together: 1,
    first: [1, 2],
    last: [1, 2],
    values: doubles(1, 2, Number.NaN, Number.NaN, 5, 7),
    median: doubles(1, 5),
    nonfinite: [[1, 1, 1]],
  } as unknown as RanksData;
  const processes = { rank: [0, 1, 2], status: ["finished", "crashed", "live"] } as Processes;
  const findings = [
    { severity: "warning", evidence: { rank: 2 } },
    { severity: "error", evidence: { rank: 2 } },
    { severity: "error", evidence: {} },
  ] as unknown as Finding[];

  test("rows have their status, the worst finding and their mean", () => {
    const { rows } = rankTable(about, processes, findings, "rank", 3);
    expect(rows.map(({ status }) => status)).toEqual(["finished", "crashed", "live"]);
    expect(rows.map(({ severity }) => severity)).toEqual([null, null, "error"]);
    expect(rows.map(({ mean }) => mean)).toEqual([1.5, Number.NaN, 6]);
  });

  test("the greatest mean comes first, rows without values last", () => {
    const table = rankTable(about, processes, findings, "value", 3);
    expect(table.rows.map(({ place }) => place)).toEqual([2, 0, 1]);
    const grid = rankGrid(table, new RankColours(table.values));
    expect([...(grid.row(0)?.values ?? [])]).toEqual([5, 7]);
    expect(grid.row(2)?.nonfinite?.(1)).toBe(true);
    expect(grid.row(0)?.nonfinite?.(1)).toBe(false);
  });

  test("neighbouring ranks share a row", () => {
    const merged = { ...about, together: 2, values: doubles(1, 2, 5, 7) };
    const { rows } = rankTable(merged, processes, findings, "rank", 3);
    expect(rows.map(({ ranks }) => rowName(ranks))).toEqual(["ranks 0 – 1", "rank 2"]);
    expect(rows[0]?.status).toBe("crashed");
  });
});

describe("histograms", () => {
  const data = decodeDistribution({
    casts: [],
    kind: "",
    path: "",
    steps: [10, 20],
    levels: [0, 0.5, 1],
    quantiles: doubles(-1, 0, 1, -2, 0, 2),
    edges: doubles(-1, 0, 1),
    shares: doubles(0.5, 0.5, 0.25, 0.75),
  });

  test("shares and quantiles are found by step", () => {
    expect(share(data, 1, 0)).toBe(0.25);
    expect([...quantile(data, 2)]).toEqual([1, 2]);
  });

  test("the highest bin of all steps is the highest peak", () => {
    const layout = ridgeLayout(data, 286, 240);
    expect(layout.borders[0]).toBe(74);
    expect(layout.borders[2]).toBe(286 - 12);
    expect(layout.height(1, 1)).toBeCloseTo(3 * layout.height(1, 0), 9);
    const outline = ridgeOutline(layout, 1);
    expect(outline.at(0)).toEqual([74, layout.baselines[1]]);
    expect(outline).toHaveLength(4);
    expect(layout.tails).toEqual([]);
  });

  test("the bin at a point is that of the next baseline below", () => {
    const layout = ridgeLayout(data, 286, 240);
    const [upper = 0, lower = 0] = layout.baselines;
    expect(ridgeAt(layout, 100, upper - 1)).toEqual({ step: 0, bin: 0 });
    expect(ridgeAt(layout, 250, (upper + lower) / 2)).toEqual({ step: 1, bin: 1 });
    expect(ridgeAt(layout, 10, upper)).toBeNull();
  });

  test("wide outermost bins hold the tails and are drawn narrow", () => {
    const tailed = {
      ...data,
      edges: Float64Array.of(-100, -1, 0, 1, 100),
      shares: new Float64Array(8),
    };
    expect(ridgeLayout(tailed, 486, 240).tails).toEqual([174, 374]);
  });
});
