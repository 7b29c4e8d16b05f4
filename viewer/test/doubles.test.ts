import { expect, test } from "vitest";
import { decodeDoubles, encodeDoubles, fromJson } from "../src/api/doubles";

// IEEE 754: 1 is 00 00 00 00 00 00 f0 3f, -2 is 00 00 00 00 00 00 00 c0 in little-endian order.
test("doubles are base64 of little-endian IEEE 754", () => {
  expect([...decodeDoubles("AAAAAAAA8D8AAAAAAAAAwA==")]).toEqual([1, -2]);
  expect(encodeDoubles(Float64Array.of(1, -2))).toBe("AAAAAAAA8D8AAAAAAAAAwA==");
  expect(decodeDoubles("")).toHaveLength(0);
});

test("all values survive, also in long arrays and in parts of a buffer", () => {
  const values = Float64Array.of(
    ...[0.1, -0, 5e-324, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
  );
  expect(decodeDoubles(encodeDoubles(values))).toEqual(values);
  const long = Float64Array.from({ length: 5000 }, (_, i) => i / 7);
  expect(decodeDoubles(encodeDoubles(long))).toEqual(long);
  expect([...decodeDoubles(encodeDoubles(long.subarray(7, 9)))]).toEqual([1, 8 / 7]);
});

test("JSON numbers that are not finite are words", () => {
  expect(fromJson(1.5)).toBe(1.5);
  expect(fromJson("nan")).toBeNaN();
  expect(fromJson("inf")).toBe(Number.POSITIVE_INFINITY);
  expect(fromJson("-inf")).toBe(Number.NEGATIVE_INFINITY);
});
