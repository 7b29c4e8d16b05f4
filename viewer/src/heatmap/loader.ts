import { RequestError, type Source } from "../api/source";
import type { StatisticData } from "../api/types";
import { type Band, bandOf, grownBand } from "./band";
import { ValueColours } from "./colours";

/** The rows of a request, and the number of concurrent requests. */
const CHUNK = 64;
const REQUESTS = 2;

/** The selection of data that all shown cells belong to. */
export interface Frame {
  run: string;
  kind: string;
  statistic: string;
  scale: StatisticData["scale"];
  revision: string;
  columns: number;
  from?: number | undefined;
  to?: number | undefined;
}

interface Events {
  /** New cells have arrived. */
  updated: () => void;
  failed: (error: Error) => void;
  /** The tree of the run has changed and must be loaded again. */
  outdated: () => void;
}

/**
 * Loads and keeps the cells of the visible rows, some rows at a time. While the cells of another
 * range of time are loading, the old cells are shown.
 */
export class Loader {
  colours = new ValueColours("log");
  private frame: Frame | null = null;
  private bands = new Map<number, Band>();
  private standins = new Map<number, Band>();
  private stale = new Set<Band>();
  private wanted: readonly number[] = [];
  private later: readonly number[] = [];
  private asked = new Set<number>();
  /** Rows whose request failed; the next change of the run repeats it. */
  private failed = new Set<number>();
  private requests = 0;
  private abort = new AbortController();

  constructor(
    private readonly source: Source,
    private readonly events: Events,
  ) {}

  /** Shows another frame. */
  show(frame: Frame): void {
    const old = this.frame;
    if (old !== null && sameFrame(old, frame)) return;
    const alike =
      old !== null &&
      sameFrame({ ...old, columns: 0, from: 0, to: 0 }, { ...frame, columns: 0, from: 0, to: 0 });
    this.abort.abort();
    this.abort = new AbortController();
    // Rows that have not arrived keep their older cells.
    this.standins = alike ? new Map([...this.standins, ...this.bands]) : new Map();
    if (!alike) this.colours = new ValueColours(frame.scale);
    this.frame = frame;
    this.bands = new Map();
    this.stale.clear();
    this.asked.clear();
    this.failed.clear();
    this.requests = 0;
  }

  /** Sets the visible rows, and rows to load when all visible ones are there. */
  want(nodes: readonly number[], later: readonly number[]): void {
    this.wanted = nodes;
    this.later = later;
    this.next();
  }

  /** The run has grown: the new columns of the visible rows are requested. */
  grown(): void {
    this.stale = new Set(this.bands.values());
    this.failed.clear();
    this.next();
  }

  close(): void {
    this.abort.abort();
    this.frame = null;
  }

  band(node: number): Band | null {
    return this.bands.get(node) ?? this.standins.get(node) ?? null;
  }

  /** Whether the cells of a row belong to the current frame. */
  settled(node: number): boolean {
    return this.bands.has(node);
  }

  private next(): void {
    while (this.frame !== null && this.requests < REQUESTS) {
      let rows = this.missing(this.wanted);
      // Visible rows have priority.
      if (rows.length === 0 && this.requests === 0) rows = this.missing(this.later);
      if (rows.length > 0) {
        void this.ask(this.frame, rows.slice(0, CHUNK), null);
        continue;
      }
      const old = this.wanted
        .map((node) => this.bands.get(node))
        .find((band) => band !== undefined && this.stale.has(band));
      if (old === undefined) return;
      this.stale.delete(old);
      void this.ask(this.frame, old.nodes, old);
    }
  }

  private missing(nodes: readonly number[]): number[] {
    return nodes.filter(
      (node) => !this.bands.has(node) && !this.asked.has(node) && !this.failed.has(node),
    );
  }

  private async ask(frame: Frame, rows: readonly number[], old: Band | null): Promise<void> {
    const { signal } = this.abort;
    const { run, kind, statistic, revision, columns, from, to } = frame;
    const since = old?.last.at(-1);
    for (const row of rows) this.asked.add(row);
    this.requests++;
    try {
      const data = await this.source.heatmap(
        run,
        {
          kind,
          statistic,
          revision,
          rows,
          columns,
          from,
          to,
          ...(since === undefined ? {} : { since, width: old?.width }),
        },
        signal,
      );
      if (signal.aborted) return;
      const band = old === null ? bandOf(data) : grownBand(old, data);
      this.colours.see(band.values);
      for (const node of band.nodes) this.bands.set(node, band);
      this.events.updated();
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof RequestError && error.status === 409) this.events.outdated();
      else this.events.failed(error instanceof Error ? error : new Error(String(error)));
    }
    for (const row of rows) {
      this.asked.delete(row);
      if (!this.bands.has(row)) this.failed.add(row);
    }
    this.requests--;
    this.next();
  }
}

function sameFrame(a: Frame, b: Frame): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
