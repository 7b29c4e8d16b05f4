import type { Connection } from "./source";
import type { Change } from "./types";

/** The least time between two notifications about the same run. */
const PACE_MS = 700;

/** The delay before a lost connection is opened again; browsers stop retrying after some errors. */
const RETRY_MS = 3000;

/**
 * Notifies listeners of server-sent events. The page has one connection, which opens with the first
 * listener. After an interruption all listeners are called, since events may have been missed.
 */
export class Changes {
  private events: EventSource | null = null;
  private connection: Connection = "none";
  private interrupted = false;
  private readonly listeners = new Map<string | null, Set<() => void>>();
  private readonly told = new Map<string | null, number>();
  private readonly waiting = new Set<string | null>();
  private readonly watchers = new Set<(connection: Connection) => void>();

  constructor(private readonly address: string) {}

  onChange(run: string | null, changed: () => void): () => void {
    const concerned = this.listeners.get(run) ?? new Set();
    this.listeners.set(run, concerned.add(changed));
    this.open();
    return () => {
      concerned.delete(changed);
    };
  }

  onConnection(listener: (connection: Connection) => void): () => void {
    this.watchers.add(listener);
    listener(this.connection);
    return () => {
      this.watchers.delete(listener);
    };
  }

  private open(): void {
    if (this.events !== null) return;
    this.become("connecting");
    const events = new EventSource(this.address);
    this.events = events;
    events.onopen = () => {
      this.become("live");
      if (this.interrupted) for (const concerned of this.listeners.values()) call(concerned);
      this.interrupted = false;
    };
    events.onmessage = (event: MessageEvent<string>) => {
      const change = JSON.parse(event.data) as Change;
      if (change.list) this.tell(null);
      for (const run of change.runs) this.tell(run);
    };
    events.onerror = () => {
      this.interrupted = true;
      this.become("lost");
      if (events.readyState !== EventSource.CLOSED) return;
      this.events = null;
      setTimeout(() => this.open(), RETRY_MS);
    };
  }

  /** Calls the listeners of a run, but not more often than `PACE_MS` allows. */
  private tell(run: string | null): void {
    if (this.waiting.has(run)) return;
    const since = performance.now() - (this.told.get(run) ?? Number.NEGATIVE_INFINITY);
    this.waiting.add(run);
    setTimeout(
      () => {
        this.waiting.delete(run);
        this.told.set(run, performance.now());
        call(this.listeners.get(run));
      },
      Math.max(0, PACE_MS - since),
    );
  }

  private become(connection: Connection): void {
    this.connection = connection;
    for (const watcher of this.watchers) watcher(connection);
  }
}

function call(listeners: Set<() => void> | undefined): void {
  for (const listener of listeners ?? []) listener();
}
