import { printable } from "../format";
import { Changes } from "./changes";
import {
  type CompareRequest,
  type CompareSeriesRequest,
  type Connection,
  type HeatmapRequest,
  type RanksRequest,
  RequestError,
  type Site,
  type Source,
  type Window,
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

type Parameters = Record<string, string | number | undefined>;

/** Requests data from the server of this page. */
export class HttpSource implements Source {
  readonly report = false;
  readonly made = null;
  readonly plotted = [];

  constructor(
    private readonly rank = "",
    private readonly changes = new Changes("api/events"),
  ) {}

  ofRank(rank: string): Source {
    return rank === this.rank ? this : new HttpSource(rank, this.changes);
  }

  async runs(signal?: AbortSignal): Promise<Runs> {
    return allNamed(await ask<Runs>("api/runs", {}, signal));
  }

  async run(run: string, signal?: AbortSignal): Promise<RunData> {
    return named(await ask<RunData>("api/run", this.of(run), signal));
  }

  tree(run: string, kind: string, signal?: AbortSignal): Promise<Tree> {
    return ask("api/tree", { run, kind }, signal);
  }

  heatmap(run: string, request: HeatmapRequest, signal?: AbortSignal): Promise<HeatmapData> {
    const rows = request.rows.join(",");
    return ask("api/heatmap", { ...this.of(run), ...request, rows }, signal);
  }

  numbers(run: string, window: Window, signal?: AbortSignal): Promise<NumbersData> {
    return ask("api/numbers", { ...this.of(run), ...window }, signal);
  }

  async curves(runs: readonly string[], columns: number, signal?: AbortSignal) {
    const parameters = { runs: runs.join(","), columns, rank: this.rank || undefined };
    return allNamed(await ask<CurvesData>("api/curves", parameters, signal));
  }

  ranks(run: string, request: RanksRequest, signal?: AbortSignal): Promise<RanksData> {
    return ask("api/ranks", { run, ...request }, signal);
  }

  series(run: string, site: Site, window: Window, signal?: AbortSignal): Promise<SeriesData> {
    return ask("api/series", { ...this.of(run), ...site, ...window }, signal);
  }

  distribution(
    run: string,
    site: Site,
    { columns, from, to }: Window,
    signal?: AbortSignal,
  ): Promise<DistributionData> {
    return ask("api/distribution", { ...this.of(run), ...site, columns, from, to }, signal);
  }

  pictures(run: string, path: string, signal?: AbortSignal): Promise<PicturesData> {
    return ask("api/pictures", { ...this.of(run), path }, signal);
  }

  pictureUrl(run: string, path: string, step: number): string {
    return address("api/picture", { ...this.of(run), path, step });
  }

  async compare(runs: string[], request: CompareRequest, signal?: AbortSignal) {
    const parameters = { runs: runs.join(","), ...request };
    return allNamed(await ask<ComparisonData>("api/compare", parameters, signal));
  }

  async compareSeries(runs: string[], request: CompareSeriesRequest, signal?: AbortSignal) {
    const parameters = { runs: runs.join(","), ...request };
    return allNamed(await ask<ComparedSeries>("api/compare-series", parameters, signal));
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
    return this.changes.onChange(run, changed);
  }

  onConnection(listener: (connection: Connection) => void): () => void {
    return this.changes.onConnection(listener);
  }

  private of(run: string): Parameters {
    return { run, rank: this.rank || undefined };
  }
}

/** Makes the name of a run printable. Requests use ids, so names are for display only. */
function named<T extends { name: string }>(run: T): T {
  return { ...run, name: printable(run.name) };
}

function allNamed<T extends { runs: { name: string }[] }>(answer: T): T {
  return { ...answer, runs: answer.runs.map(named) };
}

function address(path: string, parameters: Parameters): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters))
    if (value !== undefined) query.set(name, String(value));
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** The server's answer. Throws `RequestError` with the server's message if it refuses. */
async function ask<T>(path: string, parameters: Parameters, signal?: AbortSignal): Promise<T> {
  let response: Response;
  try {
    response = await fetch(address(path, parameters), {
      signal: signal ?? null,
      credentials: "same-origin",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RequestError(0, "The server does not answer. Is `gradwatch view` still running?");
  }
  if (response.ok) return (await response.json()) as T;
  throw new RequestError(response.status, await reason(response));
}

async function reason(response: Response): Promise<string> {
  if (response.status === 401)
    return "This browser has no session with the server. Open the link that `gradwatch view` printed in the terminal again.";
  try {
    const failure: unknown = await response.json();
    if (typeof failure === "object" && failure !== null && "error" in failure)
      return String(failure.error);
  } catch {
    // The answer is not JSON; the status describes the error.
  }
  return `The server answered ${response.status} ${response.statusText}.`;
}
