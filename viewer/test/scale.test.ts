import { expect, test } from "vitest";
import { percent, tickTexts } from "../src/charts/numbers";
import { extent, padded, placed, stepTicks, ticks } from "../src/charts/scale";

test("extent ignores what is not finite", () => {
  expect(extent([3, Number.NaN, -2, undefined, Number.POSITIVE_INFINITY])).toEqual({
    low: -2,
    high: 3,
  });
  expect(extent([0, -1, 0.5, 8], true)).toEqual({ low: 0.5, high: 8 });
  expect(extent([Number.NaN])).toBeNull();
});

test("padded adds room, but no values below 0 for values that are never negative", () => {
  expect(padded({ low: 0, high: 100 }, "linear")).toEqual({ low: 0, high: 106 });
  expect(padded({ low: -100, high: 0 }, "linear")).toEqual({ low: -106, high: 6 });
  expect(padded({ low: 4, high: 4 }, "linear")).toEqual({ low: 2, high: 6 });
  expect(padded({ low: 4, high: 4 }, "log")).toEqual({ low: 2, high: 8 });
  // Six hundredths of two decades: 10 ** 0.12.
  expect(padded({ low: 1, high: 100 }, "log").low).toBeCloseTo(0.758578, 6);
  expect(padded({ low: 1, high: 100 }, "log").high).toBeCloseTo(131.825674, 6);
  expect(padded(null, "linear")).toEqual({ low: 0, high: 1 });
});

test("placed is the share of the way from low to high", () => {
  expect(placed(15, { low: 10, high: 20 }, "linear")).toBe(0.5);
  expect(placed(10, { low: 1, high: 1000 }, "log")).toBeCloseTo(1 / 3, 12);
  expect(placed(0, { low: 1, high: 10 }, "log")).toBe(Number.NEGATIVE_INFINITY);
});

test("linear ticks are multiples of 1, 2 or 5 times a power of ten", () => {
  expect(ticks({ low: 0, high: 10 }, "linear", 5)).toEqual([0, 2, 4, 6, 8, 10]);
  expect(ticks({ low: -0.13, high: 0.21 }, "linear", 4)).toEqual([-0.1, 0, 0.1, 0.2]);
  expect(ticks({ low: 3, high: 3 }, "linear", 4)).toEqual([3]);
});

test("logarithmic ticks are powers of ten, or 1, 2 and 5 within few decades", () => {
  expect(ticks({ low: 1e-3, high: 1e3 }, "log", 10)).toEqual([0.001, 0.01, 0.1, 1, 10, 100, 1000]);
  expect(ticks({ low: 1.5, high: 60 }, "log", 6)).toEqual([2, 5, 10, 20, 50]);
});

test("ticks of steps are whole numbers", () => {
  expect(stepTicks({ low: 0, high: 3 }, 8)).toEqual([0, 1, 2, 3]);
  expect(stepTicks({ low: 1, high: 240 }, 5)).toEqual([50, 100, 150, 200]);
});

test("the texts of ticks have equally many digits", () => {
  expect(tickTexts([0, 0.05, 0.1])).toEqual(["0.00", "0.05", "0.10"]);
  expect(tickTexts([0, 500, 1000, 1500])).toEqual(["0", "500", "1,000", "1,500"]);
  expect(tickTexts([-0.1, 0, 0.1])).toEqual(["-0.1", "0.0", "0.1"]);
  expect(tickTexts([1e-6, 2e-6, 3e-6])).toEqual(["1e-6", "2e-6", "3e-6"]);
  expect(tickTexts([1, 10, 100, 1000])).toEqual(["1", "10", "100", "1,000"]);
});

test("percent has four digits", () => {
  expect(percent(0.5)).toBe("50 %");
  expect(percent(0.00123)).toBe("0.123 %");
  expect(percent(Number.NaN)).toBe("–");
});
