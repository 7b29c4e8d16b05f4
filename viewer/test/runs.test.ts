import { expect, test } from "vitest";
import type { RunEntry } from "../src/api/types";
import {
  arranged,
  COLUMNS,
  extrasOf,
  parseOrder,
  shownExtras,
  spellChoice,
} from "../src/runs/columns";
import { sparkPath } from "../src/runs/sparkline";

function run(name: string, about: Partial<RunEntry>): RunEntry {
  const unknown = { status: null, started: null, duration: null, last_step: null, steps: null };
  const more = { sites: null, loss: null, health: null, error: null, course: null };
  return {
    id: name,
    name,
    ...unknown,
    ...more,
    metrics: null,
    config: null,
    tags: null,
    note: null,
    ...about,
  };
}

const RUNS = [
  run("a", {
    config: { lr: 0.01, net: "mlp", seed: 1 },
    metrics: { accuracy: 0.9, val_loss: 2 },
    tags: ["sweep"],
  }),
  run("b", {
    config: { lr: 0.1, net: "cnn", seed: 1 },
    metrics: { accuracy: 0.8, val_loss: 10 },
    note: "a long try",
  }),
  run("c", {
    config: { lr: 1e-4, net: "mlp", seed: 1, "opt.name": "sgd" },
    metrics: { val_loss: "nan" },
  }),
  run("d", {}),
];
const EXTRAS = extrasOf(RUNS);
const ALL = [...COLUMNS, ...EXTRAS.metrics, ...EXTRAS.settings];

function names(order: string, text = ""): string {
  return arranged(RUNS, ALL, parseOrder(order, ALL), text)
    .map(({ name }) => name)
    .join("");
}

test("settings and metrics are columns, and numbers are sorted as numbers", () => {
  expect(EXTRAS.metrics.map(({ label }) => label)).toEqual(["accuracy", "val_loss"]);
  expect(EXTRAS.settings.map(({ label, numeric }) => [label, numeric])).toEqual([
    ["lr", true],
    ["net", false],
    ["seed", true],
    ["opt.name", false],
  ]);
  expect(names("config.lr")).toBe("cabd");
  expect(names("-config.lr")).toBe("bacd");
  expect(names("metric.val_loss")).toBe("abcd");
  expect(names("-metric.val_loss")).toBe("bacd");
  expect(names("config.net")).toBe("bacd");
});

test("runs are found by name, tag, note and setting", () => {
  expect(names("name", "sweep")).toBe("a");
  expect(names("name", "long try")).toBe("b");
  expect(names("name", "lr=0.1")).toBe("b");
  expect(names("name", "net=mlp seed=1")).toBe("ac");
  expect(names("name", "nothing")).toBe("");
});

test("at first, settings that differ and metrics are shown; then those that are chosen", () => {
  const shown = (chosen?: string) => shownExtras(EXTRAS, RUNS, chosen).map(({ key }) => key);
  expect(shown()).toEqual([
    "metric.accuracy",
    "metric.val_loss",
    "config.lr",
    "config.net",
    "config.seed",
    "config.opt.name",
  ]);
  const some = RUNS.slice(0, 2);
  expect(shownExtras(extrasOf(some), some, "").map(({ label }) => label)).not.toContain("seed");
  expect(shown("config.seed")).toEqual(["config.seed"]);
  expect(shown("none")).toEqual([]);
  expect(spellChoice([])).toBe("none");
  const odd = [run("x", { config: { "a,b": 1 } })];
  const choice = spellChoice(extrasOf(odd).settings);
  expect(shownExtras(extrasOf(odd), odd, choice).map(({ label }) => label)).toEqual(["a,b"]);
});

test("a sparkline runs from the first to the last value, and has dots where they are not finite", () => {
  expect(sparkPath([3, 1, 2])).toEqual({ path: "M2 2L42 18L82 10", bad: [] });
  expect(sparkPath([1, Number.NaN, Number.NaN, 2])).toEqual({ path: "M2 18M82 2", bad: [28.7] });
  expect(sparkPath([5])).toEqual({ path: "M2 18h0", bad: [] });
  expect(sparkPath([Number.NaN]).bad).toEqual([2]);
});
