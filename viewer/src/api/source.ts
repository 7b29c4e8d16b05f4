import type {
  ComparedSeries,
  ComparisonData,
  DistributionData,
  HeatmapData,
  NumbersData,
  PicturesData,
  RanksData,
  RunData,
  Runs,
  Selection,
  SeriesData,
  Tree,
} from "./types";

/** Which columns are asked for; `since` and `width` for only those that may have changed. */
export interface Window {
  columns: number;
  from?: number | undefined;
  to?: number | undefined;
  since?: number | undefined;
  width?: number | undefined;
}

export interface Site {
  kind: string;
  path: string;
}

export interface HeatmapRequest extends Window {
  kind: string;
  statistic: string;
  revision: string;
  rows: readonly number[];
}

export interface RanksRequest extends Window, Site {
  /** At most so many rows. */
  rows: number;
}

export interface CompareRequest {
  kind: string;
  statistic: string;
  align: "step" | "fraction";
  pattern: string;
  columns: number;
}

export interface CompareSeriesRequest extends Site {
  statistic: string;
  align: "step" | "fraction";
  columns: number;
}

/** A request was refused or not answered; the message is for people. Status 0: no server. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export type Connection = "none" | "connecting" | "live" | "lost";

/** Where pages get their data from: a server, or the answers that a report carries. */
export interface Source {
  /** Whether this is a report: one run, only what was put into it, never changing. */
  readonly report: boolean;
  /** Of a report: when it was made, in seconds since 1970. */
  readonly made: number | null;
  /** Of a report: what it has series of, what matters most first. */
  readonly plotted: readonly Site[];

  /** The same with the numbers of a rank, of "first" or "all"; for "" as the server has them. */
  ofRank(rank: string): Source;

  runs(signal?: AbortSignal): Promise<Runs>;
  run(run: string, signal?: AbortSignal): Promise<RunData>;
  tree(run: string, kind: string, signal?: AbortSignal): Promise<Tree>;
  select(run: string, kind: string, pattern: string, signal?: AbortSignal): Promise<Selection>;
  heatmap(run: string, request: HeatmapRequest, signal?: AbortSignal): Promise<HeatmapData>;
  numbers(run: string, window: Window, signal?: AbortSignal): Promise<NumbersData>;
  ranks(run: string, request: RanksRequest, signal?: AbortSignal): Promise<RanksData>;
  series(run: string, site: Site, window: Window, signal?: AbortSignal): Promise<SeriesData>;
  distribution(
    run: string,
    site: Site,
    window: Window,
    signal?: AbortSignal,
  ): Promise<DistributionData>;
  pictures(run: string, path: string, signal?: AbortSignal): Promise<PicturesData>;
  /** The address of a picture, for an <img>. */
  pictureUrl(run: string, path: string, step: number): string;
  compare(runs: string[], request: CompareRequest, signal?: AbortSignal): Promise<ComparisonData>;
  compareSeries(
    runs: string[],
    request: CompareSeriesRequest,
    signal?: AbortSignal,
  ): Promise<ComparedSeries>;

  /** Whether a heatmap can be asked for. A server has all that a run's data names. */
  hasHeatmap(kind: string, statistic: string): boolean;
  /** Whether a series (and so a site's page) can be asked for. */
  hasSeries(kind: string, path: string): boolean;

  /** Whether a number can be asked for on all ranks. */
  hasRanks(kind: string, path: string): boolean;

  /** Calls `changed` whenever the run (or, for null, the list of runs) may have changed. */
  onChange(run: string | null, changed: () => void): () => void;
  /** Tells how the connection for changes stands, now and whenever it changes. */
  onConnection(listener: (connection: Connection) => void): () => void;
}
