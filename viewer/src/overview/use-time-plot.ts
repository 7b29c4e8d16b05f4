import { useMemo, useState } from "preact/hooks";
import type { RunData } from "../api/types";
import type { Query } from "../route";
import type { TimePlot } from "../time/plot";
import { type Range, timeScale, wholeRange } from "../time/range";
import { useTimeRange } from "../time/use-range";
import { useSize } from "../use";

/** The free space at the right of all plots, for the scrollbar of the heatmap. */
const SCROLLBAR = 14;

/** The greatest share of the width that labels take: on a phone they would leave little. */
const LABELS = { names: 0.42, paths: 0.62 };

/** The state that plots over one time axis share; `measure` is the ref of their container. */
export function useTimePlot(
  run: RunData,
  query: Query,
  wanted: number,
  labels: keyof typeof LABELS = "names",
) {
  const full = useMemo(() => wholeRange(run), [run.first_step, run.last_step]);
  const time = useTimeRange(full, query);
  const [measure, size] = useSize<HTMLDivElement>();
  const [cursor, point] = useState<number | null>(null);
  const [selecting, select] = useState<Range | null>(null);
  const labelWidth = Math.min(wanted, Math.round(size.width * LABELS[labels]));
  const scale = timeScale(time.range, Math.max(0, size.width - labelWidth - SCROLLBAR));
  const plot: TimePlot = { scale, time, labelWidth, cursor, selecting, point, select };
  return { measure, plot };
}
