import type { StatisticData } from "../api/types";
import { ColourScale, type Tick } from "../cells/colour-scale";
import { type ColourMap, divergingMap, sequentialMap, shareMap, ZERO } from "../cells/colours";
import { short } from "../format";

/** The most decades of a scale. Smaller values have the colour of the smallest, or of 0. */
const DECADES = { log: 12, signed: 4, linear: 0 };

/**
 * The colours of the overview. The limits are round numbers that only grow, so that
 * colours seldom change their meaning during scrolling.
 */
export class ValueColours extends ColourScale {
  /** Grows when colours change their meaning. */
  version = 0;
  /** Whether there are zeros, which a logarithmic scale does not contain. */
  zeros = false;
  private least = Number.POSITIVE_INFINITY;
  private greatest = 0;
  private low = -1;
  private high = 0;

  constructor(readonly scale: StatisticData["scale"]) {
    super();
  }

  override get map(): ColourMap {
    if (this.scale === "linear") return shareMap();
    return this.scale === "signed" ? divergingMap() : sequentialMap();
  }

  /** Extends the limits to include values. */
  see(values: Float64Array): void {
    for (const value of values) {
      const size = Math.abs(value);
      if (size === 0 && this.scale === "log") this.zeros = true;
      if (!(size > 0) || size === Number.POSITIVE_INFINITY) continue;
      if (size < this.least) this.least = size;
      if (size > this.greatest) this.greatest = size;
    }
    // Shares that are all 0 have a scale, too.
    if (this.greatest === 0 && (this.scale !== "linear" || !values.includes(0))) return;
    const [low, high] =
      this.scale === "linear"
        ? [0, this.greatest === 0 ? 1 : roundUp(this.greatest)]
        : [Math.floor(Math.log10(this.least)), Math.ceil(Math.log10(this.greatest))];
    // A scale has at least one decade.
    const bottom =
      this.scale === "linear" ? low : Math.max(Math.min(low, high - 1), high - DECADES[this.scale]);
    if (bottom === this.low && high === this.high) return;
    this.low = bottom;
    this.high = high;
    this.version++;
  }

  override place(value: number): number {
    if (!Number.isFinite(value)) return Number.NaN;
    if (this.scale === "linear") return value / this.high;
    const size = clamped((Math.log10(Math.abs(value)) - this.low) / (this.high - this.low));
    if (this.scale === "log") return value > 0 ? size : 0;
    return value === 0 ? 0.5 : 0.5 + (Math.sign(value) * size) / 2;
  }

  override pixel(value: number): number {
    return this.isZero(value) ? ZERO.pixel : super.pixel(value);
  }

  override css(value: number): string | null {
    return this.isZero(value) ? ZERO.css : super.css(value);
  }

  /** Whether a value is a zero that a logarithmic scale does not contain. */
  private isZero(value: number): boolean {
    return value === 0 && this.scale === "log";
  }

  override ticks(): Tick[] {
    if (this.scale === "linear")
      return [0, 0.25, 0.5, 0.75, 1].map((place) => ({ place, label: short(place * this.high) }));
    const span = this.high - this.low;
    const every = Math.ceil(span / (this.scale === "log" ? 6 : 3));
    const ticks: Tick[] = [];
    for (let power = this.high; power >= this.low; power -= every) {
      const place = (power - this.low) / span;
      if (this.scale === "log") ticks.push({ place, label: powerOfTen(power) });
      else if (place > 0) {
        ticks.push({ place: 0.5 + place / 2, label: powerOfTen(power) });
        ticks.push({ place: 0.5 - place / 2, label: `-${powerOfTen(power)}` });
      }
    }
    // A single decade has ticks between its ends.
    if (this.scale === "log" && span === 1)
      for (const factor of [2, 5])
        ticks.push({ place: Math.log10(factor), label: short(factor * 10 ** this.low) });
    if (this.scale === "signed") ticks.push({ place: 0.5, label: "0" });
    return ticks.sort((a, b) => a.place - b.place);
  }

  /** Whether there are values below the lower end of the scale. */
  get cut(): boolean {
    return this.scale === "log" && this.least < 10 ** this.low;
  }
}

function clamped(value: number): number {
  return Math.min(1, Math.max(0, value));
}

function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const factor = [1, 2, 5].find((f) => value <= f * power * (1 + 1e-9)) ?? 10;
  return factor * power;
}

function powerOfTen(power: number): string {
  if (power >= 0 && power <= 3) return String(10 ** power);
  return power < 0 && power >= -3 ? (10 ** power).toFixed(-power) : `1e${power}`;
}
