import { printable } from "../format";
import type {
  CompareRequest,
  CompareSeriesRequest,
  Connection,
  HeatmapRequest,
  RanksRequest,
  Site,
  Source,
  Window,
} from "./source";
import type {
  ComparedSeries,
  ComparisonData,
  CurvesData,
  DistributionData,
  HeatmapData,
  NumbersData,
  PicturesData,
  RanksData,
  RunData,
  Runs,
  SeriesData,
  Tree,
} from "./types";

export type Parameters = Record<string, string | number | undefined>;

/** How requests reach what answers them, and how its changes are noticed. */
export interface Link {
  /** Throws `RequestError` if the request is refused. */
  ask<T>(name: string, parameters: Parameters, signal?: AbortSignal): Promise<T>;
  onChange(run: string | null, changed: () => void): () => void;
  onConnection(listener: (connection: Connection) => void): () => void;
}

/** Requests data over a link. */
export class LinkedSource implements Source {
  readonly report = false;
  readonly alone: boolean = false;
  readonly made = null;
  readonly plotted = [];

  constructor(
    protected readonly link: Link,
    protected readonly rank = "",
  ) {}

  ofRank(rank: string): Source {
    return rank === this.rank ? this : new LinkedSource(this.link, rank);
  }

  async runs(signal?: AbortSignal): Promise<Runs> {
    return allNamed(await this.link.ask<Runs>("runs", {}, signal));
  }

  async run(run: string, signal?: AbortSignal): Promise<RunData> {
    return named(await this.link.ask<RunData>("run", this.of(run), signal));
  }

  tree(run: string, kind: string, signal?: AbortSignal): Promise<Tree> {
    return this.link.ask("tree", { run, kind }, signal);
  }

  heatmap(run: string, request: HeatmapRequest, signal?: AbortSignal): Promise<HeatmapData> {
    const rows = request.rows.join(",");
    return this.link.ask("heatmap", { ...this.of(run), ...request, rows }, signal);
  }

  numbers(run: string, window: Window, signal?: AbortSignal): Promise<NumbersData> {
    return this.link.ask("numbers", { ...this.of(run), ...window }, signal);
  }

  async curves(runs: readonly string[], columns: number, signal?: AbortSignal) {
    const parameters = { runs: runs.join(","), columns, rank: this.rank || undefined };
    return allNamed(await this.link.ask<CurvesData>("curves", parameters, signal));
  }

  ranks(run: string, request: RanksRequest, signal?: AbortSignal): Promise<RanksData> {
    return this.link.ask("ranks", { run, ...request }, signal);
  }

  series(run: string, site: Site, window: Window, signal?: AbortSignal): Promise<SeriesData> {
    return this.link.ask("series", { ...this.of(run), ...site, ...window }, signal);
  }

  distribution(
    run: string,
    site: Site,
    { columns, from, to }: Window,
    signal?: AbortSignal,
  ): Promise<DistributionData> {
    return this.link.ask("distribution", { ...this.of(run), ...site, columns, from, to }, signal);
  }

  pictures(run: string, path: string, signal?: AbortSignal): Promise<PicturesData> {
    return this.link.ask("pictures", { ...this.of(run), path }, signal);
  }

  pictureUrl(run: string, path: string, step: number): string {
    return address("api/picture", { ...this.of(run), path, step });
  }

  async compare(runs: string[], request: CompareRequest, signal?: AbortSignal) {
    const parameters = { runs: runs.join(","), ...request };
    return allNamed(await this.link.ask<ComparisonData>("compare", parameters, signal));
  }

  async compareSeries(runs: string[], request: CompareSeriesRequest, signal?: AbortSignal) {
    const parameters = { runs: runs.join(","), ...request };
    return allNamed(await this.link.ask<ComparedSeries>("compare-series", parameters, signal));
  }

  hasHeatmap(): boolean {
    return true;
  }

  hasSeries(): boolean {
    return true;
  }

  hasRanks(): boolean {
    return true;
  }

  onChange(run: string | null, changed: () => void): () => void {
    return this.link.onChange(run, changed);
  }

  onConnection(listener: (connection: Connection) => void): () => void {
    return this.link.onConnection(listener);
  }

  protected of(run: string): Parameters {
    return { run, rank: this.rank || undefined };
  }
}

/** Makes the name of a run printable. Requests use ids, so names are for display only. */
export function named<T extends { name: string }>(run: T): T {
  return { ...run, name: printable(run.name) };
}

export function allNamed<T extends { runs: { name: string }[] }>(answer: T): T {
  return { ...answer, runs: answer.runs.map(named) };
}

/** The URL of a request. */
export function address(path: string, parameters: Parameters): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters))
    if (value !== undefined) query.set(name, String(value));
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}
