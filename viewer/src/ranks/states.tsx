import type { Processes, Status } from "../api/types";
import { count, date } from "../format";
import { StatusMark } from "../runs/status";

/** The number of ranks that are listed; the rest is counted. */
const NAMED = 6;
const ORDER: Status[] = ["live", "finished", "crashed", "damaged", "empty"];

/** The number of processes by status. */
export function RankStates({ processes }: { processes: Processes }) {
  return (
    <span class="rank-states">
      {count(processes.rank.length)} processes:
      {ORDER.map((status) => {
        const number = processes.status.filter((one) => one === status).length;
        if (number === 0) return null;
        return (
          <span key={status} data-status={status} data-count={number}>
            {count(number)} <StatusMark status={status} word={wordOf(status)} />
          </span>
        );
      })}
    </span>
  );
}

/** The processes that have crashed or are missing, with their last step and time. */
export function StoppedRanks({ processes }: { processes: Processes }) {
  const stopped = [...processes.rank.keys()].filter((i) =>
    ["crashed", "empty"].includes(processes.status[i] ?? ""),
  );
  if (stopped.length === 0) return null;
  return (
    <ul class="rank-stopped" aria-label="Ranks that have stopped">
      {stopped.slice(0, NAMED).map((i) => (
        <li key={i} data-rank={processes.rank[i]}>
          <b>rank {processes.rank[i]}</b> {stopWords(processes, i)}
        </li>
      ))}
      {stopped.length > NAMED && <li class="muted">and {count(stopped.length - NAMED)} more</li>}
    </ul>
  );
}

export function wordOf(status: Status): string {
  return status === "empty" ? "missing" : status;
}

function stopWords(processes: Processes, i: number): string {
  const step = processes.last_step[i] ?? null;
  const time = processes.last_time[i] ?? null;
  if (step === null) return "has recorded nothing";
  const since = time === null ? "" : ` (${date(time)})`;
  return `crashed; its last record is of step ${count(step)}${since}`;
}
