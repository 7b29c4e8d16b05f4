import { ColourScale, type Tick } from "../cells/colour-scale";
import { sequentialMap } from "../cells/colours";
import { tickTexts } from "../charts/numbers";
import { extent, type Interval, placed, type ScaleKind, ticks } from "../charts/scale";
import { short } from "../format";

/** Values whose extremes differ by more than this factor get a logarithmic scale. */
const WIDE = 30;

/**
 * A colour scale from the least to the greatest of the shown values, so that small differences
 * between ranks are visible.
 */
export class RankColours extends ColourScale {
  private readonly interval: Interval;
  private readonly kind: ScaleKind;

  constructor(values: Float64Array) {
    super();
    const seen = extent(values) ?? { low: 0, high: 1 };
    this.kind = seen.low > 0 && seen.high / seen.low > WIDE ? "log" : "linear";
    const room = Math.abs(seen.low) / 10 || 1;
    this.interval = seen.low < seen.high ? seen : { low: seen.low - room, high: seen.low + room };
  }

  override get map() {
    return sequentialMap();
  }

  override place(value: number): number {
    return Number.isFinite(value) ? placed(value, this.interval, this.kind) : Number.NaN;
  }

  override ticks(): Tick[] {
    const found = ticks(this.interval, this.kind, 6);
    const texts = this.kind === "log" ? found.map(short) : tickTexts(found);
    return found.map((tick, i) => ({ place: this.place(tick), label: texts[i] ?? "" }));
  }
}
