import { expect, test } from "vitest";
import { encodeDoubles } from "../src/api/doubles";
import type { CurvesData } from "../src/api/types";
import { lineTable } from "../src/charts/table";
import { curveModel } from "../src/curves/chart-model";
import { chartsOf, decodeCurves } from "../src/curves/curves";
import { smoothed } from "../src/curves/smoothing";

const doubles = (...values: number[]) => encodeDoubles(Float64Array.from(values));

function curve(kind: string, path: string, step: number[], values: number[]) {
  const half = step.map((one) => one / 2);
  const seconds = step.map((one) => one * 60);
  return {
    kind,
    path,
    step,
    epoch: doubles(...half),
    time: doubles(...seconds),
    values: doubles(...values),
  };
}

function runs(...curves: ReturnType<typeof curve>[][]) {
  const data: CurvesData = {
    runs: curves.map((own, i) => ({
      id: `${i}`,
      name: `run ${i}`,
      has_epochs: i === 0,
      curves: own,
    })),
  };
  return decodeCurves(data);
}

const FIT = [
  curve("loss", "loss", [1, 2, 3, 4], [4, 2, 3, 1]),
  curve("metric", "loss", [1, 2, 3, 4], [4, 3, 3, 2]),
  curve("metric", "accuracy", [1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4]),
  curve("epoch_metric", "loss", [2, 4], [3, 2]),
  curve("epoch_metric", "val_loss", [2, 4], [3.5, 2.5]),
  curve("epoch_metric", "val_accuracy", [2, 4], [0.15, 0.35]),
  curve("epoch_metric", "learning_rate", [2, 4], [0.1, 0.01]),
];

test("smoothing is TensorBoard's, without its bias at the beginning", () => {
  // The weights of 1, 2, ... are 0.4 * 0.6 ** age, divided by their sum.
  const truth = (values: number[], weight: number) =>
    values.map((_, i) => {
      const weights = values.slice(0, i + 1).map((__, j) => (1 - weight) * weight ** (i - j));
      const total = weights.reduce((a, b) => a + b, 0);
      return weights.reduce((sum, w, j) => sum + w * (values[j] ?? 0), 0) / total;
    });
  const values = [5, 3, 8, 1, 1, 9];
  for (const weight of [0.1, 0.6, 0.99]) {
    const found = smoothed(values, weight);
    truth(values, weight).forEach((value, i) => {
      expect(found[i]).toBeCloseTo(value, 10);
    });
  }
  expect(smoothed(values, 0)).toEqual(values);
  expect(smoothed([2, 2, 2], 0.9)).toEqual([2, 2, 2]);
  expect(smoothed([1, Number.NaN, 1.5], 0.5)).toEqual([
    1,
    Number.NaN,
    (0.25 * 1 + 0.5 * 1.5) / 0.75,
  ]);
});

test("a number in training and in validation share a chart, losses come first", () => {
  const charts = chartsOf(runs(FIT));
  expect(charts.map(({ title }) => title)).toEqual(["loss", "accuracy", "learning_rate"]);
  const [loss, accuracy] = charts;
  expect(loss?.lines.map(({ curve: { kind, path }, role }) => [kind, path, role])).toEqual([
    ["loss", "loss", "train"],
    ["metric", "loss", "reported"],
    ["epoch_metric", "val_loss", "validation"],
  ]);
  expect(accuracy?.lines.map(({ role }) => role)).toEqual(["train", "validation"]);
});

test("groups keep their names, and only the last part says that it is of validation", () => {
  const group = [
    curve("metric", "generator/val_loss", [1], [1]),
    curve("loss", "generator/loss", [1], [1]),
  ];
  const [chart, ...others] = chartsOf(runs(group));
  expect(chart?.title).toBe("generator/loss");
  expect(chart?.lines).toHaveLength(2);
  expect(others).toHaveLength(0);
  expect(chartsOf(runs([curve("metric", "val_set/loss", [1], [1])]))[0]?.title).toBe(
    "val_set/loss",
  );
});

test("of several runs each has one line in training and one in validation", () => {
  const both = runs(FIT, [curve("metric", "loss", [2, 6], [9, 8])]);
  const [loss] = chartsOf(both);
  if (!loss) throw new Error("no chart");
  const { axis, lines } = curveModel(loss, both, { along: "step", smoothing: 0 });
  expect([...axis.position]).toEqual([1, 2, 3, 4, 6]);
  expect(lines.map(({ name, dashed }) => [name, dashed])).toEqual([
    ["run 0", false],
    ["run 1", false],
    ["run 0: val_loss", true],
  ]);
  expect(lines.map(({ colour }) => colour)).toEqual(["series-1", "series-2", "series-1"]);
  expect(lines[1]?.values).toEqual([undefined, 9, undefined, undefined, 8]);
});

test("curves run over steps, epochs or time", () => {
  const both = runs(FIT, [curve("metric", "loss", [2, 6], [9, 8])]);
  const [loss] = chartsOf(both);
  if (!loss) throw new Error("no chart");
  const over = (along: "epoch" | "time") => curveModel(loss, both, { along, smoothing: 0 });
  // The second run has no epochs.
  expect([...over("epoch").axis.position]).toEqual([0.5, 1, 1.5, 2]);
  expect(over("epoch").lines).toHaveLength(2);
  const time = over("time").axis;
  expect(time.label).toBe("time since the start, minutes");
  expect([...time.position]).toEqual([1, 2, 3, 4, 6]);
  expect(time.cells(4)).toEqual([360]);
  expect(time.name(4)).toBe("after 6 min 0 s");
});

test("raw values stay behind smoothed ones, and epochs are not smoothed", () => {
  const own = runs(FIT);
  const [loss] = chartsOf(own);
  if (!loss) throw new Error("no chart");
  const model = curveModel(loss, own, { along: "step", smoothing: 0.5 });
  const [train, reported, validation] = model.lines;
  expect(train?.raw).toEqual([4, 2, 3, 1]);
  expect(train?.values[1]).toBeCloseTo((0.25 * 4 + 0.5 * 2) / 0.75, 12);
  expect(reported?.raw).toBeUndefined();
  expect(validation?.values).toEqual([undefined, 3.5, undefined, 2.5]);
  const table = lineTable(model);
  expect(table.head).toEqual(["step", "loss", "loss smoothed", "loss as reported", "val_loss"]);
  expect(table.rows[1]?.[1]).toBe(2);
});

test("a loss that is not finite is marked", () => {
  const own = runs([curve("loss", "loss", [1, 2, 3], [1, Number.NaN, Number.NaN])]);
  const [loss] = chartsOf(own);
  if (!loss) throw new Error("no chart");
  const { marks } = curveModel(loss, own, { along: "step", smoothing: 0.6 });
  expect(marks).toEqual([{ index: 1, text: "loss is nan" }]);
});
