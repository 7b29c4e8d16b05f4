import { type ColourMap, LEVELS } from "./colours";

/** A label of a colour bar. */
export interface Tick {
  /** From 0 at the left to 1 at the right. */
  place: number;
  label: string;
}

/** Maps values to the colours of a colour map. */
export abstract class ColourScale {
  abstract get map(): ColourMap;

  /** The place of a value on the colour map, from 0 to 1; NaN if the value has no colour. */
  abstract place(value: number): number;

  abstract ticks(): Tick[];

  /** The colour as a canvas stores it; 0, which is transparent, if there is none. */
  pixel(value: number): number {
    return this.map.pixels[this.level(value)] ?? 0;
  }

  /** The colour in CSS; null if there is none. */
  css(value: number): string | null {
    return this.map.css[this.level(value)] ?? null;
  }

  private level(value: number): number {
    const place = this.place(value);
    return Number.isNaN(place) ? -1 : Math.round(clamped(place) * (LEVELS - 1));
  }
}

function clamped(place: number): number {
  return Math.min(1, Math.max(0, place));
}
