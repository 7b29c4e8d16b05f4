import { allNamed, type Link, LinkedSource, named, type Parameters } from "./linked";
import { sliceHeatmap, sliceNumbers, sliceRanks } from "./slices";
import {
  type Connection,
  type HeatmapRequest,
  type RanksRequest,
  RequestError,
  type Window,
} from "./source";
import type { HeatmapData, Snapshot, Tree } from "./types";

/** How long an answer may take until the kernel counts as busy. */
const PATIENCE_MS = 800;
/** The most pictures of a variable: each is a message. */
const MOST_PICTURES = 12;

/** What the kernel sends by itself whenever the run has changed, also while a cell runs. */
export type Overview = Pick<Snapshot, "run" | "heatmaps" | "numbers" | "curves" | "ranks">;

/** From the widget to this page. Strings are JSON; they are empty as long as there is no run. */
interface Told {
  said: string;
  trees: string;
  overview: string;
}

interface Answered {
  id: string;
  status: number;
  /** Of another status than 200, the reason. */
  answer: unknown;
}

interface Waiting {
  resolve: (answer: never) => void;
  reject: (error: unknown) => void;
  overdue: boolean;
}

/** The kernel of a notebook, through the model of the widget that this page is in. */
export class Kernel implements Link {
  overview: Overview | null = null;
  trees: readonly Tree[] = [];
  /** What is shown until there is a run. */
  said = "";
  /** Whether an answer is late: the kernel answers nothing while it runs a cell. */
  busy = false;
  private readonly waiting = new Map<string, Waiting>();
  private readonly changed = new Set<() => void>();
  private readonly watchers = new Set<(connection: Connection) => void>();
  private told: Partial<Told> = {};
  // Other views of the same widget get the same messages.
  private readonly view = Math.random().toString(36).slice(2);
  private count = 0;

  constructor(private readonly port: Pick<MessagePort, "postMessage">) {}

  /** A message of the widget. */
  receive(message: Told | Answered): void {
    if ("id" in message) this.answered(message);
    else this.tell(message);
  }

  ask<T>(name: string, parameters: Parameters, signal?: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      const id = `${this.view}-${++this.count}`;
      const waiting: Waiting = { resolve, reject, overdue: false };
      this.waiting.set(id, waiting);
      setTimeout(() => {
        if (!this.waiting.has(id)) return;
        this.busy = true;
        waiting.overdue = !signal?.aborted;
        this.announce();
      }, PATIENCE_MS);
      signal?.addEventListener("abort", () => {
        // It is answered nevertheless, which tells that the kernel is busy no more.
        waiting.overdue = false;
        reject(signal.reason);
        this.announce();
      });
      this.port.postMessage({ id, name, parameters });
    });
  }

  onChange(_run: string | null, changed: () => void): () => void {
    this.changed.add(changed);
    return () => {
      this.changed.delete(changed);
    };
  }

  onConnection(listener: (connection: Connection) => void): () => void {
    this.watchers.add(listener);
    listener(this.connection);
    return () => {
      this.watchers.delete(listener);
    };
  }

  private get connection(): Connection {
    return [...this.waiting.values()].some(({ overdue }) => overdue) ? "busy" : "live";
  }

  private announce(): void {
    for (const watcher of this.watchers) watcher(this.connection);
  }

  private answered({ id, status, answer }: Answered): void {
    const waiting = this.waiting.get(id);
    if (waiting === undefined) return;
    this.waiting.delete(id);
    this.busy = false;
    this.announce();
    if (status === 200) waiting.resolve(answer as never);
    else waiting.reject(new RequestError(status, String(answer)));
  }

  private tell(told: Told): void {
    this.said = told.said;
    if (told.trees && told.trees !== this.told.trees) this.trees = JSON.parse(told.trees);
    if (told.overview && told.overview !== this.told.overview)
      this.overview = JSON.parse(told.overview);
    this.told = told;
    for (const changed of this.changed) changed();
  }
}

/**
 * The data of a run in the memory of a notebook's kernel. The overview is what the kernel has sent
 * by itself; all else, and another rank's overview, is requested.
 */
export class KernelSource extends LinkedSource {
  override readonly alone = true;
  private readonly drawn = new Map<string, string>();

  constructor(
    private readonly kernel: Kernel,
    rank = "",
  ) {
    super(kernel, rank);
  }

  override ofRank(rank: string): KernelSource {
    return rank === this.rank ? this : new KernelSource(this.kernel, rank);
  }

  override async run(run: string, signal?: AbortSignal) {
    return this.overview ? named(this.overview.run) : super.run(run, signal);
  }

  override async tree(run: string, kind: string, signal?: AbortSignal): Promise<Tree> {
    const found = this.kernel.trees.find((tree) => tree.kind === kind);
    return found ?? super.tree(run, kind, signal);
  }

  override async heatmap(run: string, request: HeatmapRequest, signal?: AbortSignal) {
    const { kind, statistic, revision } = request;
    const sent = this.overview?.heatmaps.find((h) => h.kind === kind && h.statistic === statistic);
    const ask = (stop = signal) => super.heatmap(run, request, stop);
    if (!sent || !hasRows(sent, request.rows)) return ask();
    if (sent.revision !== revision) throw new RequestError(409, "Other sites are recorded now.");
    return this.finer(request, sent.width, sliceHeatmap(sent, request), ask);
  }

  override async numbers(run: string, window: Window, signal?: AbortSignal) {
    const sent = this.overview?.numbers;
    const ask = (stop = signal) => super.numbers(run, window, stop);
    if (!sent) return ask();
    return this.finer(window, sent.numbers[0]?.width ?? 1, sliceNumbers(sent, window), ask);
  }

  override async curves(runs: readonly string[], columns: number, signal?: AbortSignal) {
    const sent = this.overview?.curves;
    return sent ? allNamed(sent) : super.curves(runs, columns, signal);
  }

  override async ranks(run: string, request: RanksRequest, signal?: AbortSignal) {
    const { kind, path } = request;
    const sent = this.overview?.ranks.find((one) => one.kind === kind && one.path === path);
    return sent ? sliceRanks(sent, request) : super.ranks(run, request, signal);
  }

  /** Some pictures, at even distances; there are no addresses from which an image could load. */
  override async pictures(run: string, path: string, signal?: AbortSignal) {
    const { steps } = await super.pictures(run, path, signal);
    const chosen = evenly(steps, MOST_PICTURES);
    for (const step of chosen) {
      const key = `${step} ${path}`;
      if (this.drawn.has(key)) continue;
      const parameters = { ...this.of(run), path, step };
      this.drawn.set(key, await this.kernel.ask<string>("picture", parameters, signal));
    }
    return { path, steps: chosen };
  }

  override pictureUrl(_run: string, path: string, step: number): string {
    const png = this.drawn.get(`${step} ${path}`);
    return png === undefined ? "" : `data:image/png;base64,${png}`;
  }

  private get overview(): Overview | null {
    return this.rank === "" ? this.kernel.overview : null;
  }

  /**
   * Of a part of the run, the kernel has finer columns than it has sent. If it is busy, those that
   * it has sent must do.
   */
  private finer<T>(
    { from, to }: Window,
    width: number,
    sent: T,
    ask: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> | T {
    if ((from === undefined && to === undefined) || width <= 1 || this.kernel.busy) return sent;
    const stop = new AbortController();
    const timeout = new Promise<T>((resolve) => {
      setTimeout(() => {
        resolve(sent);
        stop.abort();
      }, PATIENCE_MS);
    });
    return Promise.race([ask(stop.signal), timeout]);
  }
}

function hasRows(heatmap: HeatmapData, rows: readonly number[]): boolean {
  const sent = new Set(heatmap.rows);
  return rows.every((row) => sent.has(row));
}

/** At most that many, the first and the last among them. */
export function evenly(steps: readonly number[], most: number): number[] {
  if (steps.length <= most) return [...steps];
  const places = Array.from({ length: most }, (_, i) =>
    Math.round((i * (steps.length - 1)) / (most - 1)),
  );
  return places.map((place) => steps[place] as number);
}
