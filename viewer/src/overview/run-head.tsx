import type { Source } from "../api/source";
import type { RunData } from "../api/types";
import { count, counted, date, duration } from "../format";
import { RankChooser } from "../ranks/chooser";
import { StatusMark } from "../runs/status";

/** The name, status and progress of a run, and which of its data cannot be read. */
export function RunHead({ source, run, rank }: { source: Source; run: RunData; rank: string }) {
  const told = [
    run.last_step !== null && `step ${count(run.last_step)}`,
    run.steps > 0 && run.steps !== run.last_step && `${count(run.steps)} measured`,
    run.epochs.length > 0 && counted(run.epochs.length, "epoch"),
    duration(run.duration),
    run.started !== null && `started ${date(run.started)}`,
    run.cost,
  ].filter((part) => typeof part === "string" && part !== "");
  return (
    <div class="run-head">
      <h1 title={run.name}>{run.name}</h1>
      <StatusMark status={run.status} />
      <span class="muted">{told.join(" · ")}</span>
      <RankChooser source={source} run={run} rank={rank} />
      {(run.damage.length > 0 || run.lost_rows > 0) && (
        <div class="damage" role="alert">
          {run.lost_rows > 0 && <p>Lost: {counted(run.lost_rows, "row")}.</p>}
          {run.damage.map((line) => (
            <p key={line}>{line}</p>
          ))}
        </div>
      )}
    </div>
  );
}
