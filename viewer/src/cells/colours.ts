/**
 * Colour maps with linear lightness: equal differences look equal, also with colour blindness and
 * in greyscale. The maps interpolate points in OKLCH (lightness, chroma, hue in degrees), a
 * perceptually uniform colour space.
 */

type Point = readonly [lightness: number, chroma: number, hue: number];

/** Dark indigo over teal to pale yellow. */
const SEQUENTIAL: Point[] = [
  [0.26, 0.1, 290],
  [0.39, 0.13, 262],
  [0.53, 0.105, 226],
  [0.67, 0.115, 170],
  [0.8, 0.15, 128],
  [0.93, 0.15, 104],
];

/** Blue for negative, nearly white at 0, orange-brown for positive. */
const DIVERGING: Point[] = [
  [0.36, 0.12, 262],
  [0.58, 0.13, 250],
  [0.8, 0.075, 245],
  [0.95, 0.004, 200],
  [0.8, 0.095, 68],
  [0.58, 0.125, 52],
  [0.36, 0.095, 42],
];

/** Nearly white for none, over orange to dark red for all. */
const SHARES: Point[] = [
  [0.97, 0.008, 90],
  [0.85, 0.085, 80],
  [0.72, 0.14, 60],
  [0.58, 0.16, 42],
  [0.45, 0.14, 30],
  [0.31, 0.1, 20],
];

export const LEVELS = 256;

/** The colour of 0 on a logarithmic scale: grey, which the map does not contain. */
export const ZERO = { css: "rgb(160 164 168)", pixel: pixel(160, 164, 168) };

export interface ColourMap {
  /** Colours as in the pixels of a canvas: alpha, blue, green, red from the highest byte. */
  pixels: Uint32Array;
  css: string[];
}

let sequential: ColourMap | undefined;
let diverging: ColourMap | undefined;
let shares: ColourMap | undefined;

export function sequentialMap(): ColourMap {
  sequential ??= colourMap(SEQUENTIAL);
  return sequential;
}

export function divergingMap(): ColourMap {
  diverging ??= colourMap(DIVERGING);
  return diverging;
}

export function shareMap(): ColourMap {
  shares ??= colourMap(SHARES);
  return shares;
}

function pixel(red: number, green: number, blue: number): number {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

function colourMap(points: Point[]): ColourMap {
  const pixels = new Uint32Array(LEVELS);
  const css: string[] = [];
  for (let level = 0; level < LEVELS; level++) {
    const [red, green, blue] = inGamut(between(points, level / (LEVELS - 1)));
    pixels[level] = pixel(red, green, blue);
    css.push(`rgb(${red} ${green} ${blue})`);
  }
  return { pixels, css };
}

/** A colour in OKLab: lightness, green to red, blue to yellow. */
type Lab = [lightness: number, a: number, b: number];

function lab([lightness, chroma, hue]: Point): Lab {
  const angle = (hue * Math.PI) / 180;
  return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
}

/** Interpolates linearly between the points, so that there is no other hue on the way to grey. */
function between(points: Point[], share: number): Lab {
  const place = share * (points.length - 1);
  const index = Math.min(Math.floor(place), points.length - 2);
  const from = lab(points[index] as Point);
  const to = lab(points[index + 1] as Point);
  return from.map((value, i) => value + (place - index) * ((to[i] ?? 0) - value)) as Lab;
}

/** The colour in sRGB. Colours outside of sRGB lose chroma, but keep their lightness. */
function inGamut([lightness, a, b]: Lab): [number, number, number] {
  for (let part = 1; part > 0; part -= 0.02) {
    const linear = linearRgb([lightness, a * part, b * part]);
    if (linear.every((value) => value > -0.0005 && value < 1.0005))
      return linear.map(encoded) as [number, number, number];
  }
  return linearRgb([lightness, 0, 0]).map(encoded) as [number, number, number];
}

function linearRgb([lightness, a, b]: Lab): number[] {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
}

function encoded(linear: number): number {
  const value = Math.min(1, Math.max(0, linear));
  const curve = value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055;
  return Math.round(curve * 255);
}
