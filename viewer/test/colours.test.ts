import { describe, expect, test } from "vitest";
import { type ColourMap, divergingMap, sequentialMap, shareMap, ZERO } from "../src/cells/colours";
import { DistanceColours, distanceText } from "../src/compare/colours";
import { ValueColours } from "../src/heatmap/colours";
import { RankColours } from "../src/ranks/colours";

function rgb(css: string | null): [number, number, number] {
  return (css?.match(/\d+/g) ?? []).map(Number) as [number, number, number];
}

/** CIE lightness, 0 to 100. */
function lightness(css: string): number {
  const linear = rgb(css).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  const [r = 0, g = 0, b = 0] = linear;
  const y = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return y > 0.008856 ? 116 * Math.cbrt(y) - 16 : 903.3 * y;
}

/** OKLab from sRGB, with the matrices of its definition (Ottosson 2020). */
function oklab(css: string): [number, number, number] {
  const [r = 0, g = 0, b = 0] = rgb(css).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

describe("maps", () => {
  test("the ends of the sequential map are dark indigo and pale yellow in OKLab", () => {
    const { css } = sequentialMap();
    for (const [level, lightest, hue] of [
      [0, 0.26, 290],
      [255, 0.93, 104],
    ] as const) {
      const [lightness, a, b] = oklab(css[level] ?? "");
      expect(Math.abs(lightness - lightest)).toBeLessThan(0.01);
      expect(Math.abs((((Math.atan2(b, a) * 180) / Math.PI + 360) % 360) - hue)).toBeLessThan(3);
    }
  });

  test("the sequential map becomes lighter from end to end", () => {
    const values = sequentialMap().css.map(lightness);
    values.slice(8).forEach((value, i) => {
      expect(value).toBeGreaterThan(values[i] ?? 0);
    });
    expect(values[0]).toBeLessThan(25);
    expect(values.at(-1)).toBeGreaterThan(85);
  });

  test("the diverging map is lightest in the middle, blue below and brown above", () => {
    const { css } = divergingMap();
    const values = css.map(lightness);
    expect(Math.max(...values)).toBe(Math.max(values[127] ?? 0, values[128] ?? 0));
    const [red, , blue] = rgb(css[32] ?? "");
    expect(blue).toBeGreaterThan(red + 50);
    const [otherRed, , otherBlue] = rgb(css[224] ?? "");
    expect(otherRed).toBeGreaterThan(otherBlue + 50);
  });

  test("the map of shares becomes darker from end to end", () => {
    const values = shareMap().css.map(lightness);
    values.slice(8).forEach((value, i) => {
      expect(value).toBeLessThan(values[i] ?? 0);
    });
    expect(values[0]).toBeGreaterThan(95);
    expect(values.at(-1)).toBeLessThan(25);
  });

  test.each<[string, () => ColourMap]>([
    ["sequential", sequentialMap],
    ["diverging", divergingMap],
    ["share", shareMap],
  ])("pixels of the %s map are its CSS colours", (_, map) => {
    const { css, pixels } = map();
    const bytes = new Uint8Array(pixels.buffer);
    css.forEach((colour, level) => {
      expect([...bytes.subarray(4 * level, 4 * level + 4)]).toEqual([...rgb(colour), 255]);
    });
  });
});

describe("limits of the overview", () => {
  const seen = (scale: "log" | "signed" | "linear", ...values: number[]) => {
    const limits = new ValueColours(scale);
    limits.see(Float64Array.from(values));
    return limits;
  };
  const labels = (limits: ValueColours) => limits.ticks().map(({ label }) => label);

  test("a log scale ends at powers of ten", () => {
    const limits = seen("log", 0.02, 30, Number.NaN, Number.POSITIVE_INFINITY);
    expect(limits.place(0.01)).toBeCloseTo(0, 12);
    expect(limits.place(1)).toBeCloseTo(0.5, 12);
    expect(limits.place(1e9)).toBe(1);
    expect(labels(limits)).toEqual(["0.01", "0.1", "1", "10", "100"]);
    expect(limits.cut).toBe(false);
  });

  test("zeros have their own colour on a log scale, values that are not finite have none", () => {
    const limits = seen("log", 0, 1, 10);
    expect(limits.zeros).toBe(true);
    expect(limits.css(0)).toBe(ZERO.css);
    expect(limits.pixel(0)).toBe(ZERO.pixel);
    expect(limits.css(Number.NaN)).toBeNull();
    expect(limits.pixel(Number.POSITIVE_INFINITY)).toBe(0);
    expect(limits.css(10)).toBe(sequentialMap().css[255]);
  });

  test("twelve decades are the most", () => {
    const limits = seen("log", 1e-30, 1);
    expect(limits.cut).toBe(true);
    expect(limits.place(1e-13)).toBe(0);
    expect(limits.place(1e-6)).toBeCloseTo(0.5, 12);
    expect(labels(limits)[0]).toBe("1e-12");
  });

  test("a signed scale is symmetric around 0", () => {
    const limits = seen("signed", -100, 1);
    expect(limits.place(0)).toBe(0.5);
    expect(limits.place(100) + limits.place(-100)).toBe(1);
    expect(labels(limits)).toEqual(["-100", "-10", "0", "10", "100"]);
  });

  test("a linear scale begins at 0 and ends at a round number", () => {
    const limits = seen("linear", 0.31);
    expect(limits.place(0.25)).toBe(0.5);
    expect(labels(limits)).toEqual(["0", "0.125", "0.25", "0.375", "0.5"]);
  });

  test("0 has the lightest colour of a linear scale, also where there is nothing else", () => {
    for (const limits of [seen("linear", 0, 0), seen("linear", 0, 0.7)]) {
      expect(limits.css(0)).toBe(shareMap().css[0]);
      expect(labels(limits)).toEqual(["0", "0.25", "0.5", "0.75", "1"]);
      expect(limits.version).toBe(1);
    }
  });

  test("the version grows only when colours change their meaning", () => {
    const limits = seen("log", 2, 30);
    const { version } = limits;
    limits.see(Float64Array.of(3, 90));
    expect(limits.version).toBe(version);
    limits.see(Float64Array.of(200));
    expect(limits.version).toBe(version + 1);
  });
});

test("the colours of ranks span what is shown", () => {
  const near = new RankColours(Float64Array.of(10, 20, Number.NaN));
  expect(near.place(15)).toBe(0.5);
  expect(near.css(20)).toBe(sequentialMap().css[255]);
  expect(near.css(Number.NaN)).toBeNull();
  const far = new RankColours(Float64Array.of(1, 10000));
  expect(far.place(100)).toBeCloseTo(0.5, 12);
  expect(new RankColours(Float64Array.of(5, 5)).place(5)).toBe(0.5);
});

test("distances beyond the limit have the outermost colours, NaN has none", () => {
  const colours = new DistanceColours(2, "ratio");
  expect(colours.css(-2)).toBe(divergingMap().css[0]);
  expect(colours.css(Number.NEGATIVE_INFINITY)).toBe(divergingMap().css[0]);
  expect(colours.css(99)).toBe(divergingMap().css[255]);
  expect(colours.css(Number.NaN)).toBeNull();
  expect(colours.ticks()).toEqual([
    { place: 0, label: "×1/4" },
    { place: 0.25, label: "×1/2" },
    { place: 0.5, label: "×1" },
    { place: 0.75, label: "×2" },
    { place: 1, label: "×4" },
  ]);
});

test.each([
  [0.5, "ratio", "×1.41"],
  [-3, "ratio", "×1/8"],
  [20, "ratio", "×1.049e6"],
  [Number.POSITIVE_INFINITY, "ratio", "×∞"],
  [Number.NEGATIVE_INFINITY, "ratio", "×0"],
  [0.12, "difference", "+0.12"],
  [-0.12, "difference", "-0.12"],
  [Number.NaN, "difference", "–"],
] as const)("the distance %d as a %s is %s", (distance, measure, text) => {
  expect(distanceText(distance, measure)).toBe(text);
});
