import { useEffect, useRef, useState } from "preact/hooks";
import type { KindData } from "../api/types";
import { seriesColour } from "../charts/model";
import { Choice } from "../frame/choice";
import { type Query, setQuery } from "../route";
import { useDebounced } from "../use";

interface ControlsProps {
  kinds: readonly KindData[];
  kind: KindData;
  statistic: string;
  align: "step" | "fraction";
  query: Query;
}

/** The choice of what is compared: kind, statistic, alignment and layers. */
export function Controls({ kinds, kind, statistic, align, query }: ControlsProps) {
  return (
    <div class="compare-controls">
      <Choice
        visible
        label="Kind"
        value={kind.kind}
        options={kinds.map((one) => [one.kind, one.label])}
        onChoose={(value) => setQuery({ kind: value, stat: "", path: "" })}
      />
      <Choice
        visible
        label="Statistic"
        value={statistic}
        options={kind.statistics.map(({ name, label }) => [name, label])}
        onChoose={(value) => setQuery({ stat: value })}
      />
      <Choice
        visible
        label="Align by"
        value={align}
        options={[
          ["step", "step"],
          ["fraction", "share of training"],
        ]}
        onChoose={(value) => setQuery({ align: value, from: "", to: "" })}
      />
      <PatternBox value={query.q ?? ""} />
    </div>
  );
}

/** The runs with the colours of their lines, and the choice of the run in the heatmap. */
export function RunKeys({
  runs,
  compared,
  onCompare,
}: {
  runs: readonly { id: string; name: string }[];
  compared: number;
  onCompare: (id: string) => void;
}) {
  return (
    <ul class="compare-runs" aria-label="Runs">
      {runs.map(({ id, name }, i) => (
        <li key={id}>
          <i style={{ background: `var(--${seriesColour(i)})` }} />
          <a href={`#/run/${encodeURIComponent(id)}`}>{name}</a>
          {i === 0 ? (
            <span class="muted">reference of the comparison</span>
          ) : (
            runs.length > 2 && (
              <button type="button" aria-pressed={i === compared} onClick={() => onCompare(id)}>
                {i === compared ? "in the heatmap" : "show in the heatmap"}
              </button>
            )
          )}
        </li>
      ))}
    </ul>
  );
}

function PatternBox({ value }: { value: string }) {
  const [text, setText] = useState(value);
  const settled = useDebounced(text, 300);
  const sent = useRef(value);
  useEffect(() => {
    sent.current = settled.trim();
    setQuery({ q: sent.current });
  }, [settled]);
  // The address was changed by a link or the browser's history, not by typing.
  useEffect(() => {
    if (value !== sent.current) setText(value);
  }, [value]);
  return (
    <label>
      Only
      <input
        type="search"
        value={text}
        placeholder="conv*/kernel, !bias"
        aria-label="Only what this pattern selects"
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </label>
  );
}
