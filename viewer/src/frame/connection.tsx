import { useEffect, useState } from "preact/hooks";
import type { Connection, Source } from "../api/source";
import { date } from "../format";

const WORDS: Record<Connection, string> = {
  none: "",
  connecting: "Connecting",
  live: "Connected",
  busy: "Kernel busy",
  lost: "Connection lost",
};

const HINTS: Record<Connection, string> = {
  none: "",
  connecting: "Waiting for the server.",
  live: "Changes of the runs appear automatically.",
  busy: "The kernel runs a cell. The overview goes on; all else is answered when the cell has ended.",
  lost: "Is `gradwatch view` still running? If it was restarted, open its new link.",
};

/** The state of the connection; for a report, its date. */
export function ConnectionDot({ source }: { source: Source }) {
  const connection = useConnection(source);
  if (source.made !== null) return <span class="muted">Report of {date(source.made)}</span>;
  if (connection === "none") return null;
  return (
    <span class={`connection ${connection}`} role="status" title={HINTS[connection]}>
      <span class="dot" aria-hidden="true" />
      {WORDS[connection]}
      {connection === "lost" && <span class="connection-hint">{HINTS.lost}</span>}
    </span>
  );
}

/** Why a part of the page is not there yet, while the kernel of the notebook runs a cell. */
export function BusyNote({ source }: { source: Source }) {
  if (useConnection(source) !== "busy") return null;
  return <p class="busy-note">{HINTS.busy}</p>;
}

function useConnection(source: Source): Connection {
  const [connection, setConnection] = useState<Connection>("none");
  useEffect(() => source.onConnection(setConnection), [source]);
  return connection;
}
