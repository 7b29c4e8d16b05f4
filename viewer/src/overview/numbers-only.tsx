import { useMemo, useState } from "preact/hooks";
import type { Source } from "../api/source";
import type { Finding, RunData } from "../api/types";
import type { Query } from "../route";
import { type Range, timeScale, wholeRange } from "../time/range";
import { useTimeRange } from "../time/use-range";
import { useSize } from "../use";
import { Strips } from "./strips";
import { TimeAxis } from "./time-axis";
import "./explorer.css";

interface NumbersOnlyProps {
  source: Source;
  run: RunData;
  query: Query;
  changes: number;
  chooseFinding: (finding: Finding) => void;
}

const LABELS = 190;
const RIGHT = 14;

/** The numbers of a run of which nothing else is recorded, or not yet. */
export function NumbersOnly({ source, run, query, changes, chooseFinding }: NumbersOnlyProps) {
  const full = useMemo(() => wholeRange(run), [run.first_step, run.last_step, run.steps]);
  const time = useTimeRange(full, query);
  const [measure, size] = useSize<HTMLDivElement>();
  const [cursor, setCursor] = useState<number | null>(null);
  const [selecting, setSelecting] = useState<Range | null>(null);
  const width = Math.max(0, size.width - LABELS - RIGHT);
  const shared = {
    scale: timeScale(time.range, width),
    time,
    labelWidth: LABELS,
    cursor,
    selecting,
    point: setCursor,
    select: setSelecting,
  };
  return (
    <div class="explorer" ref={measure}>
      {width > 0 && (
        <>
          <Strips {...shared} source={source} run={run} changes={changes} columns={320} />
          <TimeAxis {...shared} run={run} choose={chooseFinding} />
        </>
      )}
    </div>
  );
}
