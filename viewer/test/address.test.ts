import { expect, test } from "vitest";
import type { RunEntry } from "../src/api/types";
import { href, parseRoute } from "../src/route";
import { arranged, COLUMNS, NEWEST, parseOrder, spellOrder } from "../src/runs/columns";
import { rangeOf, rangeQuery, scaleOf, scaleQuery } from "../src/site/state";

test("a hash names a page and its state", () => {
  expect(parseRoute("#/run/ab12?kind=gradient&q=conv*%2Fkernel")).toEqual({
    page: "run",
    run: "ab12",
    query: { kind: "gradient", q: "conv*/kernel" },
  });
  expect(parseRoute("#/run/a%2Fb/site?path=x?y")).toEqual({
    page: "site",
    run: "a/b",
    query: { path: "x?y" },
  });
  expect(parseRoute("#/compare?runs=a,b").page).toBe("compare");
  expect(parseRoute("")).toEqual({ page: "runs", query: {} });
  expect(parseRoute("#/nowhere").page).toBe("runs");
  // A broken escape is not an error.
  expect(parseRoute("#/run/%E0%A4%A")).toMatchObject({ page: "run", run: "%E0%A4%A" });
});

test("the run of a report has an empty id", () => {
  expect(parseRoute(href({ page: "run", run: "" }))).toMatchObject({ page: "run", run: "" });
});

test("links contain slashes and commas as they are, and no empty values", () => {
  expect(href({ page: "site", run: "r 1" }, { path: "net/a b", rank: "" })).toBe(
    "#/run/r%201/site?path=net/a+b",
  );
  expect(href({ page: "compare" }, { runs: "a,b" })).toBe("#/compare?runs=a,b");
  expect(href({ page: "runs" })).toBe("#/");
});

test.each(["a b", "100%", "a/b", "ü&=?#", "x\u202ey"])("a link restores the path %j", (path) => {
  const link = href({ page: "site", run: path }, { path });
  expect(parseRoute(link)).toEqual({ page: "site", run: path, query: { path } });
});

test("the range and the scales of charts are in the address", () => {
  expect(rangeOf("3", "9")).toEqual({ from: 3, to: 9 });
  expect(rangeOf("9", "3")).toBeNull();
  expect(rangeOf("", "3")).toBeNull();
  expect(rangeQuery({ from: 3, to: 9 })).toEqual({ from: "3", to: "9" });
  expect(rangeQuery(null)).toEqual({ from: "", to: "" });
  expect(scaleOf({ scales: "norms.log,spread.linear" }, "spread")).toBe("linear");
  expect(scaleOf({ scales: "norms.log" }, "spread")).toBeNull();
  expect(scaleQuery({ scales: "norms.log,spread.linear" }, "norms", "linear")).toEqual({
    scales: "spread.linear,norms.linear",
  });
});

test("the order of runs is in the address", () => {
  expect(parseOrder("-loss")).toEqual({ key: "loss", descending: true });
  expect(parseOrder("name")).toEqual({ key: "name", descending: false });
  expect(parseOrder("nonsense")).toEqual(NEWEST);
  expect(spellOrder({ key: "loss", descending: true })).toBe("-loss");
  expect(spellOrder(NEWEST)).toBe("");
});

test("runs are filtered and sorted; unknown values come last in both directions", () => {
  const run = (name: string, loss: RunEntry["loss"]) => ({ name, loss }) as RunEntry;
  const runs = [
    run("run10", 2),
    run("run2", 1),
    run("RUN3", null),
    run("other", 0),
    run("run4", "nan"),
  ];
  const names = (order: string, text: string) =>
    arranged(runs, COLUMNS, parseOrder(order), text).map(({ name }) => name);
  expect(names("name", "run")).toEqual(["run2", "RUN3", "run4", "run10"]);
  expect(names("loss", "")).toEqual(["other", "run2", "run10", "RUN3", "run4"]);
  expect(names("-loss", "")).toEqual(["run10", "run2", "other", "RUN3", "run4"]);
});
