import type { Status } from "../api/types";
import "./status.css";

const HINTS: Record<Status, string> = {
  live: "The run is being recorded.",
  finished: "The run was closed normally.",
  crashed: "The run ended without being closed.",
  damaged: "Some files of the run cannot be read.",
  empty: "The run contains no data.",
  broken: "The run cannot be opened.",
};

/** The status of a run as a word and a coloured dot. */
export function StatusMark({ status, word = "" }: { status: Status | null; word?: string }) {
  if (status === null) return <span class="muted">…</span>;
  return (
    <span class={`status ${status}`} title={HINTS[status]}>
      <span class="dot" aria-hidden="true" />
      {word || status}
    </span>
  );
}
