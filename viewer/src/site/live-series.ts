import { useRef } from "preact/hooks";
import type { Source } from "../api/source";
import type { Range } from "../time/range";
import { type Answer, useAnswer } from "../use";
import { decodeSeries, mergeSeries, type Series } from "./series";

/** The greatest number of columns; the server merges more. */
const COLUMNS = 600;

/**
 * The numbers of a site, kept up to date: when `changes` grows, only new columns are requested.
 * While another site is loading, the data of the last one stays, so that nothing flickers; `about`
 * tells which site it is of.
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
