import type { Source } from "../api/source";
import type { RunData } from "../api/types";
import { setQuery } from "../route";

/** The choice of the rank whose numbers are shown; nothing for a run of one process. */
export function RankChooser({ source, run, rank }: { source: Source; run: RunData; rank: string }) {
  // A report contains the numbers of one choice.
  if (source.report || run.ranks.length < 2) return null;
  const first = run.ranks[0] ?? 0;
  return (
    <label class="rank-chooser" title="The rank whose numbers the heatmap and the charts show">
      <span class="muted">numbers of</span>{" "}
      <select
        aria-label="Rank"
        value={rank || run.rank}
        onChange={(event) => setQuery({ rank: event.currentTarget.value })}
      >
        <option value="first">rank {first}, or the first rank with data</option>
        <option value="all">all ranks, merged</option>
        {run.ranks.map((one) => (
          <option key={one} value={String(one)}>
            rank {one}
          </option>
        ))}
      </select>
    </label>
  );
}
