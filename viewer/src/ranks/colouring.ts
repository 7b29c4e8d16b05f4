import { tickTexts } from "../charts/numbers";
import { extent, type Interval, placed, type ScaleKind, ticks } from "../charts/scale";
import { short } from "../format";
import { LEVELS, sequentialMap } from "../heatmap/colours";

/** A number that differs by this factor says more on a logarithmic scale. */
const WIDE = 30;

/**
 * Which values get which colours: from the least to the greatest of what is shown, so that ranks
 * that are a little apart can be told apart.
 */
export class Colouring {
  readonly interval: Interval;
  readonly kind: ScaleKind;

  constructor(values: Float64Array) {
    const seen = extent(values) ?? { low: 0, high: 1 };
    this.kind = seen.low > 0 && seen.high / seen.low > WIDE ? "log" : "linear";
    const room = Math.abs(seen.low) / 10 || 1;
    this.interval = seen.low < seen.high ? seen : { low: seen.low - room, high: seen.low + room };
  }

  css(value: number): string {
    const place = Math.min(1, Math.max(0, placed(value, this.interval, this.kind)));
    return sequentialMap().css[Math.round(place * (LEVELS - 1))] ?? "";
  }

  /** What to write beside the legend, and where between 0 and 1. */
  ticks(): { place: number; label: string }[] {
    const found = ticks(this.interval, this.kind, 6);
    const texts = this.kind === "log" ? found.map(short) : tickTexts(found);
    return found.map((tick, i) => ({
      place: placed(tick, this.interval, this.kind),
      label: texts[i] ?? "",
    }));
  }
}
