import type { Range, TimeScale } from "./range";
import type { TimeRange } from "./use-range";

/** What the plots over one time axis have in common. */
export interface TimePlot {
  scale: TimeScale;
  time: TimeRange;
  labelWidth: number;
  /** The step under the pointer. */
  cursor: number | null;
  /** The current selection. */
  selecting: Range | null;
  point: (step: number | null) => void;
  select: (part: Range | null) => void;
}
