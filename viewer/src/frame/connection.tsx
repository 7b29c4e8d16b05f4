import { useEffect, useState } from "preact/hooks";
import type { Connection, Source } from "../api/source";
import { date } from "../format";

const WORDS: Record<Connection, string> = {
  none: "",
  connecting: "Connecting",
  live: "Connected",
  lost: "Connection lost",
};

const HINTS: Record<Connection, string> = {
  none: "",
  connecting: "Waiting for the server.",
  live: "Changes of the runs appear automatically.",
  lost: "Is `gradwatch view` still running? If it was restarted, open its new link.",
};

/** The state of the connection; for a report, its date. */
export function ConnectionDot({ source }: { source: Source }) {
  const [connection, setConnection] = useState<Connection>("none");
  useEffect(() => source.onConnection(setConnection), [source]);
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
