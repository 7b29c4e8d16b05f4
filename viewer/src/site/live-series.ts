import { useRef } from "preact/hooks";
import type { Source } from "../api/source";
import type { Range } from "../time/range";
import { type Answer, useAnswer } from "../use";
import { decodeSeries, mergeSeries, type Series } from "./series";

/** More than a chart is wide on most screens; the server merges what would be finer. */
const COLUMNS = 600;

/**
 * A site's numbers, kept up to date: when the run has changed, only the columns since then are
 * asked for. `changes` counts the changes. While another place is awaited the last one stays, so
 * that stepping through a network does not flicker; `about` says which one it is.
 */
export function useLiveSeries(
  source: Source,
  place: { run: string; kind: string; path: string },
  range: Range | null,
  changes: number,
): Answer<Series> {
  const { run, kind, path } = place;
  const kept = useRef<{ of: Source; key: string; series: Series } | null>(null);
  const key = JSON.stringify([run, kind, path, range]);

  const ask = async (signal: AbortSignal): Promise<Series> => {
    const known = kept.current;
    const old = known?.key === key && known.of === source ? known.series : null;
    const since = old?.about.last.at(-1);
    const part = old && since !== undefined ? { since, width: old.about.width } : {};
    const window = { columns: COLUMNS, from: range?.from, to: range?.to, ...part };
    const answer = decodeSeries(await source.series(run, { kind, path }, window, signal));
    const series = old && !answer.about.complete ? mergeSeries(old, answer) : answer;
    kept.current = { of: source, key, series };
    return series;
  };
  return useAnswer(ask, [source, key], run, changes);
}
