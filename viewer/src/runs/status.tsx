import type { Status } from "../api/types";
import "./status.css";

const HINTS: Record<Status, string> = {
  live: "It is being written to.",
  finished: "It was closed as it should be.",
  crashed: "It ended without being closed.",
  damaged: "Some of its files cannot be read.",
  empty: "Nothing has been recorded in it.",
  broken: "It cannot be opened.",
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
