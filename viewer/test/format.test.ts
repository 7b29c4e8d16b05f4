import { describe, expect, test } from "vitest";
import {
  count,
  counted,
  date,
  duration,
  ending,
  exact,
  figures,
  printable,
  shareRange,
  short,
  shortened,
  stepRange,
} from "../src/format";

test.each([
  [0, "0"],
  [0.00123, "0.00123"],
  [1.234567, "1.235"],
  [-12.5, "-12.5"],
  [45600, "45,600"],
  [999999, "999,999"],
  [1e6, "1e6"],
  [2.5e-7, "2.5e-7"],
  [0.0010000000474974513, "0.001"],
  [-1.23456e-9, "-1.235e-9"],
  [9.99996e-4, "1e-3"],
  [999.96, "1,000"],
  [Number.NaN, "nan"],
  [Number.POSITIVE_INFINITY, "inf"],
  [Number.NEGATIVE_INFINITY, "-inf"],
])("short(%d) is %s", (value, text) => {
  expect(short(value)).toBe(text);
});

test.each([
  [2.345678901, "2.34568"],
  [1234.56789, "1,234.57"],
  [1234567, "1.23457e6"],
  [0.0001, "1e-4"],
  [0.1 + 0.2, "0.3"],
  [0, "0"],
  [Number.NaN, "nan"],
])("figures(%d) is %s", (value, text) => {
  expect(figures(value)).toBe(text);
});

test("exact keeps every digit", () => {
  expect(exact(0.1 + 0.2)).toBe("0.30000000000000004");
  expect(exact(5e-324)).toBe("5e-324");
  expect(exact(Number.NEGATIVE_INFINITY)).toBe("-inf");
});

test("counts have separators and their noun agrees", () => {
  expect(count(1234567)).toBe("1,234,567");
  expect(counted(1, "site")).toBe("1 site");
  expect(counted(2000, "site")).toBe("2,000 sites");
  expect(counted(0, "row")).toBe("0 rows");
});

test.each([
  [0.84, "0.8 s"],
  [9.94, "9.9 s"],
  [9.96, "10 s"],
  [59.4, "59 s"],
  [185, "3 min 5 s"],
  [3599.6, "1 h 0 min"],
  [7800, "2 h 10 min"],
  [3 * 86400 + 4 * 3600, "3 d 4 h"],
])("duration(%d) is %s", (seconds, text) => {
  expect(duration(seconds)).toBe(text);
});

test("date is in local time", () => {
  const seconds = new Date(2025, 2, 9, 14, 5).getTime() / 1000;
  expect(date(seconds)).toBe("2025-03-09 14:05");
});

describe("printable", () => {
  test("escapes characters that are invisible or change the direction of text", () => {
    expect(printable("a\nb\tc")).toBe("a\\nb\\tc");
    expect(printable("a\u202eb")).toBe("a\\u202eb");
    expect(printable("\u0007")).toBe("\\x07");
    expect(printable("\ud800")).toBe("\\ud800");
  });
  test("keeps letters of all scripts, emoji and joiners", () => {
    for (const name of ["conv/kernel", "größe", "层", "👩\u200d🔬"])
      expect(printable(name)).toBe(name);
  });
});

test("stepRange names one step or two", () => {
  expect(stepRange(1000, 1000)).toBe("step 1,000");
  expect(stepRange(1, 12)).toBe("steps 1 – 12");
});

test("shortened cuts the middle, ending the beginning", () => {
  expect(shortened("abcdefghij", 10)).toBe("abcdefghij");
  expect(shortened("abcdefghijk", 6)).toBe("ab…ijk");
  expect(ending("net/block/kernel", 16)).toBe("net/block/kernel");
  expect(ending("net/block/kernel", 7)).toBe("…kernel");
  expect(ending("net/block/kernel", 1)).toBe("…nel");
});

test("shareRange is one share or its bounds, and only nothing is 0", () => {
  expect(shareRange(0, 0)).toBe("0 %");
  expect(shareRange(1, 1)).toBe("100 %");
  expect(shareRange(0.12345, 0.12345)).toBe("12.3 %");
  expect(shareRange(0.12345, 0.2)).toBe("12.3 – 20 %");
  expect(shareRange(0, 1e-7)).toBe("0 – < 0.01 %");
  expect(shareRange(0.99999, 1)).toBe("> 99.99 – 100 %");
  expect(shareRange(0.99942, 0.99942)).toBe("99.94 %");
});
