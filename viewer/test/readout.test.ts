import { expect, test } from "vitest";
import type { Line } from "../src/charts/model";
import { lastText, lineReadout } from "../src/charts/readout-values";

test("the value of a smoothed line is the one that was recorded", () => {
  const line = { values: [4, 3, 2.5], raw: [4, 2, 1] };
  expect(lineReadout(line, null)).toEqual({ value: 1, average: 2.5 });
  expect(lineReadout(line, 1)).toEqual({ value: 2, average: 3 });
  expect(lineReadout({ values: [4, 2, 1] }, null)).toEqual({ value: 1, average: undefined });
});

test("the last value of a line is its own, and nothing is shown after its end", () => {
  const line = { values: [4, undefined, 2, undefined] };
  expect(lineReadout(line, null).value).toBe(2);
  expect(lineReadout(line, 1).value).toBe(4);
  expect(lineReadout(line, 3).value).toBeUndefined();
});

test("a step is named as the last if all lines end there", () => {
  const lines = (...values: Line["values"][]) => ({
    lines: values.map((own) => ({ values: own }) as Line),
  });
  expect(lastText(lines([1, 2], [undefined, 2]), "step 9")).toBe("last: step 9");
  expect(lastText(lines([1, 2], [1, undefined]), "step 9")).toBe("last of each");
});
