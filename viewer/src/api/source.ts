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

/** The requested columns; with `since` and `width`, only those that may have changed. */
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
  /** The greatest number of rows. */
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

/** A request failed. The message is shown to the user. Status 0 means that no server answered. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** "busy": a notebook's kernel runs a cell, and answers requests afterwards. */
export type Connection = "none" | "connecting" | "live" | "busy" | "lost";

/** The source of the data of all pages: a server, a notebook's kernel or a report. */
export interface Source {
  /** Whether this is a report: a part of the data of one run, which does not change. */
  readonly report: boolean;
  /** Whether there is only one run: no list of runs, and nothing to compare it with. */
  readonly alone: boolean;
  /** When the report was made, in seconds since 1970; null for a server. */
  readonly made: number | null;
  /** The sites that a report has series of, the most important first. */
  readonly plotted: readonly Site[];

  /** A source of the data of a rank, "first" or "all"; "" is the default of the server. */
  ofRank(rank: string): Source;

  runs(signal?: AbortSignal): Promise<Runs>;
  run(run: string, signal?: AbortSignal): Promise<RunData>;
  tree(run: string, kind: string, signal?: AbortSignal): Promise<Tree>;
  heatmap(run: string, request: HeatmapRequest, signal?: AbortSignal): Promise<HeatmapData>;
  numbers(run: string, window: Window, signal?: AbortSignal): Promise<NumbersData>;
  /** The losses and metrics of one or more runs. */
  curves(runs: readonly string[], columns: number, signal?: AbortSignal): Promise<CurvesData>;
  ranks(run: string, request: RanksRequest, signal?: AbortSignal): Promise<RanksData>;
  series(run: string, site: Site, window: Window, signal?: AbortSignal): Promise<SeriesData>;
  distribution(
    run: string,
    site: Site,
    window: Window,
    signal?: AbortSignal,
  ): Promise<DistributionData>;
  pictures(run: string, path: string, signal?: AbortSignal): Promise<PicturesData>;
  /** The URL of a picture, for an <img>. */
  pictureUrl(run: string, path: string, step: number): string;
  compare(runs: string[], request: CompareRequest, signal?: AbortSignal): Promise<ComparisonData>;
  compareSeries(
    runs: string[],
    request: CompareSeriesRequest,
    signal?: AbortSignal,
  ): Promise<ComparedSeries>;

  /** Whether a heatmap is available. A server has all that `RunData` lists. */
  hasHeatmap(kind: string, statistic: string): boolean;
  /** Whether a series, and with it the page of a site, is available. */
  hasSeries(kind: string, path: string): boolean;

  /** Whether the values of a number on all ranks are available. */
  hasRanks(kind: string, path: string): boolean;

  /** Calls `changed` when the run (null: the list of runs) may have changed. Returns the end. */
  onChange(run: string | null, changed: () => void): () => void;
  /** Calls `listener` with the state of the connection, now and when it changes. */
  onConnection(listener: (connection: Connection) => void): () => void;
}
