import { describe, expect, test } from "vitest";
import { encodeDoubles } from "../src/api/doubles";
import type { HeatmapData } from "../src/api/types";
import { cellBoxes } from "../src/cells/boxes";
import { ColourScale } from "../src/cells/colour-scale";
import { sequentialMap } from "../src/cells/colours";
import { type CellGrid, cellAt, rowAt, visibleRows } from "../src/cells/grid";
import { nonfiniteRuns } from "../src/cells/paint";
import { cellPicture, stepAxis } from "../src/cells/picture";
import { heldSpans, spanAt } from "../src/cells/spans";
import { sceneSvg } from "../src/charts/scene-svg";
import { bandOf, cellAt as cellOfBand, cellRow, grownBand } from "../src/heatmap/band";
import { timeScale } from "../src/time/range";

class Shares extends ColourScale {
  override get map() {
    return sequentialMap();
  }
  override place(value: number): number {
    return value;
  }
  override ticks() {
    return [{ place: 0.5, label: "half" }];
  }
}

const COLUMNS = { first: [0, 10, 20], end: 30 };
const BLACK = sequentialMap().css[0] ?? "";
const WHITE = sequentialMap().css[255] ?? "";

/** Two rows of three cells, and one that is loading. */
const GRID: CellGrid = {
  rows: 3,
  row: (index) =>
    index === 2
      ? null
      : {
          columns: COLUMNS,
          values: index === 0 ? Float64Array.of(0, 0, 1) : Float64Array.of(1, Number.NaN, 0),
          nonfinite: (column) => index === 1 && column === 2,
        },
  colours: new Shares(),
};
const VIEW = { scale: timeScale({ from: 0, to: 30 }, 300), rowHeight: 10, scrolled: 0, height: 30 };

describe("spans", () => {
  const none = Number.NaN;
  const shown = (first: number[], end: number, values: number[], bad: number[] = []) =>
    [
      ...heldSpans({
        columns: { first, end },
        values: Float64Array.from(values),
        nonfinite: (column) => bad.includes(column),
      }),
    ].map(({ column, begin, end: until }) => [column, begin, until]);

  test("a value is shown until the next one, however far away, and the last to the end", () => {
    expect(shown([1, 2, 3, 50, 51], 60, [1, 1, 1, 1, 1])).toEqual([
      [0, 1, 2],
      [1, 2, 3],
      [2, 3, 50],
      [3, 50, 51],
      [4, 51, 60],
    ]);
    expect(shown([4], 9, [1])).toEqual([[0, 4, 9]]);
  });

  test("a row that is measured seldom is shown like one that is measured often", () => {
    expect(shown([0, 10, 20, 30, 40, 50], 60, [1, none, 2, none, 3, none])).toEqual([
      [0, 0, 20],
      [2, 20, 40],
      [4, 40, 60],
    ]);
  });

  test("nothing is shown before the first value, and long after the last", () => {
    expect(shown([0, 10, 20, 30, 40, 50], 60, [none, 1, 2, none, none, none])).toEqual([
      [1, 10, 20],
      [2, 20, 30],
    ]);
    expect(shown([0, 10, 20], 30, [none, none, none])).toEqual([]);
    expect(shown([], 30, [])).toEqual([]);
  });

  test("a cell of elements that are not finite is a value", () => {
    expect(shown([0, 10, 20], 30, [1, none, 2], [1])).toEqual([
      [0, 0, 10],
      [1, 10, 20],
      [2, 20, 30],
    ]);
  });

  test("nothing is shown after the end of the run", () => {
    expect(shown([0, 10], 13, [1, 1])).toEqual([
      [0, 0, 10],
      [1, 10, 13],
    ]);
  });

  test("the value at a position is the one before it", () => {
    const row = { columns: { first: [5, 10], end: 12 }, values: Float64Array.of(1, 2) };
    expect([4, 5, 9.9, 10, 11.9, 12].map((at) => spanAt(row, at)?.column)).toEqual([
      undefined,
      0,
      0,
      1,
      1,
      undefined,
    ]);
  });
});

describe("hits", () => {
  test("the visible rows include those that are partly visible", () => {
    const view = { ...VIEW, scrolled: 15, height: 30 };
    expect(visibleRows(100, view)).toEqual([1, 5]);
    expect(visibleRows(3, view)).toEqual([1, 3]);
    expect(visibleRows(0, VIEW)).toEqual([0, 0]);
  });

  test("the row at a height, below what is scrolled away", () => {
    expect(rowAt(3, VIEW, 29.9)).toBe(2);
    expect(rowAt(3, VIEW, 30)).toBe(-1);
    expect(rowAt(3, { ...VIEW, scrolled: 15 }, 0)).toBe(1);
    expect(rowAt(3, VIEW, -1)).toBe(-1);
  });

  test("the cell at a point", () => {
    expect(cellAt(GRID, VIEW, { x: 150, y: 2 })).toEqual({ row: 0, column: 1 });
    // Nothing was measured there: the value before it is shown.
    expect(cellAt(GRID, VIEW, { x: 150, y: 12 })).toEqual({ row: 1, column: 0 });
    expect(cellAt(GRID, VIEW, { x: 301, y: 12 })).toBeNull();
    // The third row has no cells yet.
    expect(cellAt(GRID, VIEW, { x: 150, y: 25 })).toBeNull();
  });
});

describe("pictures", () => {
  test("cells of one colour that touch are one box", () => {
    expect(cellBoxes(GRID, VIEW)).toEqual(
      new Map([
        [BLACK, [{ x: 0, y: 0, width: 200, height: 9 }]],
        [
          WHITE,
          [
            { x: 200, y: 0, width: 100, height: 9 },
            { x: 0, y: 10, width: 200, height: 9 },
          ],
        ],
        ["--nonfinite", [{ x: 200, y: 10, width: 100, height: 9 }]],
      ]),
    );
  });

  test("cells of different rows are not joined", () => {
    const row = (index: number) => {
      const values = new Float64Array(3).fill(Number.NaN);
      values[index] = 0;
      return { columns: COLUMNS, values };
    };
    expect(cellBoxes({ ...GRID, rows: 2, row }, VIEW).get(BLACK)).toEqual([
      { x: 0, y: 0, width: 100, height: 9 },
      { x: 100, y: 10, width: 100, height: 9 },
    ]);
  });

  test("cells outside of the shown range are cut", () => {
    const view = { ...VIEW, scale: timeScale({ from: 15, to: 25 }, 100) };
    expect(cellBoxes(GRID, view).get(BLACK)).toEqual([{ x: 0, y: 0, width: 50, height: 9 }]);
  });

  test("an exported heatmap has its title, labels, legend and axis", () => {
    const picture = cellPicture({
      title: "run · gradient",
      grid: GRID,
      label: (row) => `layer ${row}`,
      labelWidth: 100,
      rowHeight: 10,
      ...stepAxis({ from: 0, to: 30 }),
      keys: [{ fill: "--nonfinite", label: "NaN or Inf" }],
    });
    const svg = sceneSvg(picture, () => "black");
    const texts = [...svg.matchAll(/<text [^>]*>([^<]*)</g)].map(([, content]) => content);
    for (const content of ["run · gradient", "half", "NaN or Inf", "layer 0", "20", "step"])
      expect(texts).toContain(content);
    // Every second row has a label where rows are lower than a line of text.
    expect(texts).not.toContain("layer 1");
    expect(picture.width).toBe(100 + 820 + 16);
  });
});

test("runs of NaN or Inf are joined, and wide enough to be seen", () => {
  const bad = new Set([0, 1, 3, 5]);
  const row = {
    columns: { first: [0, 2, 4, 6, 7, 8], end: 8 },
    values: new Float64Array(6),
    nonfinite: (c: number) => bad.has(c),
  };
  expect([...nonfiniteRuns(row, (at) => at, 3)]).toEqual([
    [0, 4],
    [6, 9],
  ]);
});

describe("bands", () => {
  const data = (first: number[], values: number[], more: Partial<HeatmapData> = {}) =>
    ({
      rows: [7, 9],
      first,
      last: first,
      width: 1,
      complete: true,
      values: encodeDoubles(Float64Array.from(values)),
      nonfinite: [],
      ...more,
    }) as unknown as HeatmapData;

  test("a band has the cells of its nodes", () => {
    const band = bandOf(data([1, 2], [1, 2, 3, 4], { nonfinite: [[1, 0, 5]] }));
    expect(cellOfBand(band, 9, 1.5, 3)).toEqual({ first: 1, last: 1, value: 3, nonfinite: 5 });
    expect(cellOfBand(band, 9, 9, 3)).toBeNull();
    expect(cellOfBand(band, 8, 1, 3)).toBeNull();
    const row = cellRow(band, 9, 3);
    expect([...(row?.values ?? [])]).toEqual([3, 4]);
    expect([0, 1].map((column) => row?.nonfinite?.(column))).toEqual([true, false]);
    expect(cellRow(band, 8, 3)).toBeNull();
  });

  test("later columns replace those that they overlap", () => {
    const old = bandOf(data([1, 2, 3], [1, 2, 3, 4, 5, 6], { nonfinite: [[1, 2, 8]] }));
    const later = data([3, 4], [30, 40, 60, 70], { complete: false, nonfinite: [[0, 1, 2]] });
    const grown = grownBand(old, later);
    expect(grown.first).toEqual([1, 2, 3, 4]);
    expect([...grown.values]).toEqual([1, 2, 30, 40, 4, 5, 60, 70]);
    expect([...grown.nonfinite]).toEqual([[3, 2]]);
  });

  test("a complete answer, or one of other columns, replaces all", () => {
    const old = bandOf(data([1, 2], [1, 2, 3, 4]));
    expect(grownBand(old, data([5], [50, 60])).first).toEqual([5]);
    const wider = data([1], [9, 9], { complete: false, width: 2 });
    expect(grownBand(old, wider).first).toEqual([1]);
  });
});
