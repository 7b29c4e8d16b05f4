import { expect, test } from "vitest";
import { panned, same, selected, timeScale, wholeRange, within, zoomed } from "../src/time/range";

const FULL = { from: 0, to: 100 };

test("zooming keeps the step under the pointer in place", () => {
  expect(zoomed(FULL, FULL, 0.5, 20)).toEqual({ from: 10, to: 60 });
  expect(zoomed({ from: 10, to: 60 }, FULL, 4, 20)).toEqual(FULL);
  // Four steps are the closest.
  expect(zoomed(FULL, FULL, 0.001, 50)).toEqual({ from: 48, to: 52 });
});

test("panning and selecting stay inside of the run", () => {
  expect(panned({ from: 10, to: 30 }, FULL, -50)).toEqual({ from: 0, to: 20 });
  expect(panned({ from: 10, to: 30 }, FULL, 100)).toEqual({ from: 80, to: 100 });
  expect(selected(30.4, 20.6, FULL)).toEqual({ from: 20, to: 31 });
  expect(selected(98.5, 99.5, FULL)).toEqual({ from: 96, to: 100 });
  expect(selected(5, 5, FULL)).toBeNull();
  expect(within({ from: -10, to: 200 }, FULL)).toEqual(FULL);
});

test("two ranges are the same if both ends are", () => {
  expect(same(FULL, { from: 0, to: 100 })).toBe(true);
  expect(same(FULL, { from: 0, to: 99 })).toBe(false);
});

test("a time scale maps steps to pixels and back", () => {
  const scale = timeScale({ from: 10, to: 20 }, 500);
  expect(scale.x(10)).toBe(0);
  expect(scale.x(15)).toBe(250);
  expect(scale.x(20)).toBe(500);
  expect(scale.step(50)).toBe(11);
});

test("the whole range ends with the last step, however seldom steps are measured", () => {
  expect(wholeRange({ first_step: 1, last_step: 240 })).toEqual({ from: 1, to: 241 });
  expect(wholeRange({ first_step: 7, last_step: 7 })).toEqual({ from: 7, to: 8 });
  expect(wholeRange({ first_step: null, last_step: null })).toEqual({ from: 0, to: 1 });
});
