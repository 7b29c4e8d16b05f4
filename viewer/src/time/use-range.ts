import { useEffect, useRef, useState } from "preact/hooks";
import { type Query, setQuery } from "../route";
import { type Range, same, within } from "./range";

/** How long the range must be unchanged before the address changes and data is requested. */
const STILL_MS = 140;

export interface TimeRange {
  /** All steps of the run. */
  full: Range;
  /** The shown steps. Unless zoomed these are all steps, also those that follow. */
  range: Range;
  zoomed: boolean;
  /** The steps to request: `range` once it is unchanged for a while. Undefined: all. */
  settled: Range | undefined;
  set: (range: Range) => void;
  reset: () => void;
}

/** The shown steps of a run, kept in the address as `from` and `to`. */
export function useTimeRange(full: Range, query: Query): TimeRange {
  const [chosen, setChosen] = useState<Range | null>(() => fromQuery(query));
  const [settled, setSettled] = useState<Range | null>(chosen);
  const written = useRef(spelled(chosen));

  // The address was changed by a link or the browser's history.
  useEffect(() => {
    const named = fromQuery(query);
    if (spelled(named) === written.current) return;
    written.current = spelled(named);
    setChosen(named);
    setSettled(named);
  }, [query.from, query.to]);

  useEffect(() => {
    if (spelled(chosen) === written.current) return;
    const timer = setTimeout(() => {
      written.current = spelled(chosen);
      setSettled(chosen);
      setQuery(
        chosen
          ? { from: String(Math.floor(chosen.from)), to: String(Math.ceil(chosen.to)) }
          : { from: "", to: "" },
      );
    }, STILL_MS);
    return () => clearTimeout(timer);
  }, [chosen]);

  const range = chosen === null ? full : within(chosen, full);
  return {
    full,
    range,
    zoomed: chosen !== null,
    settled: settled === null ? undefined : within(settled, full),
    set: (wanted) => setChosen(same(wanted, full) ? null : wanted),
    reset: () => setChosen(null),
  };
}

function fromQuery(query: Query): Range | null {
  const from = Number.parseInt(query.from ?? "", 10);
  const to = Number.parseInt(query.to ?? "", 10);
  return Number.isFinite(from) && Number.isFinite(to) && to > from ? { from, to } : null;
}

function spelled(range: Range | null): string {
  return range === null ? "" : `${Math.floor(range.from)}-${Math.ceil(range.to)}`;
}
