import { describe, expect, test } from "vitest";
import type { RunData } from "../src/api/types";
import { arrowMove } from "../src/charts/arrows";
import { positionAxis, stepAxis } from "../src/charts/axes";
import { fileName } from "../src/charts/export";
import {
  belowLog,
  canBeLogarithmic,
  fittingScale,
  fittingSections,
  visiblePositions,
  visibleValues,
} from "../src/charts/line-layout";
import { linePicture, overScene } from "../src/charts/line-scene";
import { type LineModel, seriesColour } from "../src/charts/model";
import { bandAreas, linePieces } from "../src/charts/pieces";
import { sceneSvg } from "../src/charts/scene-svg";
import { csvText, lineTable } from "../src/charts/table";

const RUN = {
  first_step: 1,
  last_step: 6,
  epochs: [{ epoch: 2, first: 3, last: 5, exact: true }],
} as RunData;
const MODEL: LineModel = {
  title: "Norms",
  unit: "loss",
  axis: stepAxis({ first: [1, 3, 5], last: [2, 4, 5] }, RUN),
  lines: [
    { name: "a", values: [1, Number.NaN, 4], colour: "series-1" },
    { name: "b", values: [0, undefined, 100], colour: "series-2", dashed: true },
  ],
  bands: [{ name: "range", low: [0, 1, 2], high: [2, 3, 8], colour: "series-1", opacity: 0.2 }],
  marks: [{ index: 1, text: "2 % not finite" }],
};
const VIEW = { range: null, scale: "linear", hidden: new Set<string>() } as const;

describe("axes", () => {
  test("merged steps are drawn in their middle", () => {
    const { position, name, cells, sections } = MODEL.axis;
    expect([...position]).toEqual([1.5, 3.5, 5]);
    expect(name(0)).toBe("steps 1 – 2");
    expect(name(2)).toBe("step 5");
    expect(cells(1)).toEqual([3, 4]);
    expect(sections).toEqual([{ position: 3, label: "epoch 2" }]);
    const vague = { ...RUN, epochs: [{ epoch: 2, first: 3, last: 5, exact: false }] };
    expect(stepAxis({ first: [1], last: [1] }, vague).sections[0]?.label).toBe("epoch 2?");
  });

  test("positions are steps or shares of training", () => {
    const position = Float64Array.of(0, 0.25);
    expect(positionAxis(position, "fraction").name(1)).toBe("from 25 % of training");
    expect(positionAxis(position, "fraction").head).toEqual(["share_of_training"]);
    expect(positionAxis(Float64Array.of(1000), "step").name(0)).toBe("from step 1,000");
  });
});

describe("layout", () => {
  test("the visible part is the range, or all", () => {
    expect(visiblePositions(MODEL, VIEW)).toEqual({ low: 1, high: 6 });
    expect(visiblePositions(MODEL, { ...VIEW, range: { from: 2, to: 4 } })).toEqual({
      low: 2,
      high: 4,
    });
    const one = stepAxis({ first: [7], last: [7] }, { ...RUN, first_step: 7, last_step: 7 });
    const single = { ...MODEL, axis: one };
    expect(visiblePositions(single, VIEW)).toEqual({ low: 6, high: 8 });
  });

  test("hidden lines and values outside of the range do not stretch the axis", () => {
    expect(visibleValues(MODEL, VIEW).high).toBeCloseTo(106, 9);
    expect(visibleValues(MODEL, { ...VIEW, hidden: new Set(["b"]) }).high).toBeCloseTo(8.48, 9);
    expect(visibleValues(MODEL, { ...VIEW, range: { from: 1, to: 4 } }).high).toBeCloseTo(3.18, 9);
  });

  test("a log scale needs a positive value", () => {
    expect(canBeLogarithmic(MODEL)).toBe(true);
    const lines = [{ name: "a", values: [0, -1, Number.NaN], colour: "ink" as const }];
    expect(canBeLogarithmic({ ...MODEL, lines, bands: [] })).toBe(false);
  });

  test("zeros are marked on a log scale", () => {
    expect(belowLog(MODEL, VIEW)).toEqual([]);
    expect(belowLog(MODEL, { ...VIEW, scale: "log" })).toEqual([{ line: 1, index: 0 }]);
  });

  test("labels of sections do not overlap", () => {
    const sections = [0, 10, 80, 195].map((position) => ({ position, label: "epoch" }));
    expect(fittingSections(sections, (x) => x, 200)).toEqual([
      { at: 0, label: "epoch" },
      { at: 10, label: "" },
      { at: 80, label: "epoch" },
      { at: 195, label: "" },
    ]);
    const many = Array.from({ length: 50 }, (_, i) => ({ position: i * 4, label: "e" }));
    expect(fittingSections(many, (x) => x, 200)).toEqual([]);
  });
});

describe("shapes", () => {
  const projection = { px: (x: number) => 10 * x, py: (y: number) => -y };
  const position = Float64Array.of(0, 1, 2, 3);

  test("NaN interrupts a line, undefined does not", () => {
    expect(linePieces(position, [1, undefined, 2, 3], projection)).toEqual([
      [
        [0, -1],
        [20, -2],
        [30, -3],
      ],
    ]);
    expect(linePieces(position, [1, Number.NaN, 2, 3], projection)).toEqual([
      [[0, -1]],
      [
        [20, -2],
        [30, -3],
      ],
    ]);
  });

  test("a band is closed around each piece in which both edges are finite", () => {
    const low = [1, 1, Number.NaN, 1];
    const high = [2, 3, 4, 5];
    expect(bandAreas(position, low, high, projection)).toEqual([
      [
        [0, -2],
        [10, -3],
        [10, -1],
        [0, -1],
      ],
      [
        [30, -5],
        [30, -1],
      ],
    ]);
  });

  test("marks that would overlap are left out", () => {
    const axis = { ...MODEL.axis, position: Float64Array.of(0, 1, 2, 3) };
    const lines = [{ name: "a", values: [0, 0, 0, 0], colour: "series-1" as const }];
    const plot = { ...projection, x: 0, y: 0, width: 100, height: 50, px: (x: number) => 5 * x };
    const scene = overScene({ ...MODEL, axis, lines, marks: [] }, { ...VIEW, scale: "log" }, plot);
    expect(scene[0]?.type === "group" && scene[0].content).toHaveLength(2);
  });

  test("the export has the lines that are shown, with their names", () => {
    const svg = (hidden: string[]) =>
      sceneSvg(
        linePicture(MODEL, { ...VIEW, hidden: new Set(hidden) }, "run · Norms"),
        (name) => name,
      );
    const strokes = (document: string) =>
      [...document.matchAll(/stroke="(--series-\d)"/g)].map((m) => m[1]);
    expect(strokes(svg([]))).toEqual(["--series-1", "--series-2"]);
    expect(strokes(svg(["a"]))).toEqual(["--series-2"]);
    expect(svg([])).toContain(">range</text>");
    expect(svg(["range"])).not.toContain(">range</text>");
    expect(svg([])).toContain(">run · Norms</text>");
    expect(svg([])).toContain(">epoch 2</text>");
    // The cross of the mark.
    expect(svg([])).toContain('stroke="--nonfinite"');
  });
});

describe("files", () => {
  test("a table has a row for each position, with gaps as empty cells", () => {
    expect(lineTable(MODEL)).toEqual({
      head: ["first_step", "last_step", "a", "b", "range low", "range high", "marked"],
      rows: [
        [1, 2, 1, 0, 0, 2, ""],
        [3, 4, Number.NaN, "", 1, 3, "2 % not finite"],
        [5, 5, 4, 100, 2, 8, ""],
      ],
    });
  });

  test("CSV is quoted where RFC 4180 says so", () => {
    const table = {
      head: ["a,b", 'say "x"'],
      rows: [
        ["line\nbreak", 0.1],
        ["", Number.NaN],
      ],
    };
    expect(csvText(table)).toBe('"a,b","say ""x"""\r\n"line\nbreak",0.1\r\n,nan\r\n');
  });

  test("file names are valid everywhere", () => {
    expect(fileName(["my run", "net/head/kernel", "Norms"])).toBe("my_run-net_head_kernel-Norms");
    expect(fileName(["..", "/../x"])).toBe("x");
    expect(fileName(["<>"])).toBe("chart");
    expect(fileName(["a".repeat(300)])).toHaveLength(120);
  });
});

test("arrow keys move within the grid", () => {
  const size = { rows: 3, columns: 2 };
  expect(arrowMove("ArrowDown", { row: 0, column: 0 }, size)).toEqual({ row: 1, column: 0 });
  expect(arrowMove("ArrowRight", { row: 2, column: 1 }, size)).toEqual({ row: 2, column: 1 });
  expect(arrowMove("ArrowUp", { row: 0, column: 1 }, size)).toEqual({ row: 0, column: 1 });
  expect(arrowMove("x", { row: 0, column: 0 }, size)).toBeNull();
});

test("colours of series repeat after eight", () => {
  expect(seriesColour(0)).toBe("series-1");
  expect(seriesColour(8)).toBe("series-1");
  expect(seriesColour(15)).toBe("series-8");
});

test("a chart is logarithmic at first if all values are positive and far apart", () => {
  const scale = (values: (number | undefined)[], raw?: number[]) =>
    fittingScale({ ...MODEL, lines: [{ name: "a", values, colour: "ink", ...(raw && { raw }) }] });
  expect(scale([1e7, undefined, 1e-7, Number.NaN])).toBe("log");
  expect(scale([2, 1, 0.01])).toBe("linear");
  expect(scale([1e7, 1, 0])).toBe("linear");
  expect(scale([1e7, 1, -1])).toBe("linear");
  expect(scale([])).toBe("linear");
  // What was recorded counts, not its average.
  expect(scale([1, 0.5], [1, 1e-4])).toBe("log");
});
