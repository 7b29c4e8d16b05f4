import { printable } from "../format";
import { sliceHeatmap, sliceNumbers, sliceRanks, sliceSeries } from "./slices";
import {
  type HeatmapRequest,
  type RanksRequest,
  RequestError,
  type Site,
  type Source,
  type Window,
} from "./source";
import { carriedTree } from "./subtree";
import type { Snapshot, Tree } from "./types";

/** The snapshot in this page; null if the page is not a report. */
export function findSnapshot(): Snapshot | null {
  const text = document.getElementById("snapshot")?.textContent;
  return text ? (JSON.parse(text) as Snapshot) : null;
}

/** Reads data from a report. `run` and `has...` tell which data the report contains. */
export class SnapshotSource implements Source {
  readonly report = true;
  readonly alone = true;
  readonly made: number;
  readonly plotted: readonly Site[];
  private readonly trees = new Map<string, { tree: Tree; numbers: Map<number, number> }>();

  constructor(private readonly snapshot: Snapshot) {
    this.made = snapshot.made;
    this.plotted = snapshot.series.map(({ kind, path }) => ({ kind, path }));
    for (const tree of snapshot.trees) {
      const carried = new Set<number>();
      for (const heatmap of snapshot.heatmaps)
        if (heatmap.kind === tree.kind) for (const row of heatmap.rows) carried.add(row);
      this.trees.set(tree.kind, carriedTree(tree, carried));
    }
  }

  ofRank(): Source {
    return this;
  }

  async runs() {
    const { run, version } = this.snapshot;
    const entry = {
      id: run.id,
      name: run.name,
      status: run.status,
      started: run.started,
      duration: run.duration,
      last_step: run.last_step,
      steps: run.steps,
      sites: null,
      loss: null,
      metrics: null,
      course: null,
      config: null,
      tags: null,
      note: null,
      health: run.health,
      error: null,
    };
    return { directory: "", version, runs: [entry] };
  }

  async run() {
    const { run } = this.snapshot;
    const kinds = run.kinds
      .map((kind) => ({
        ...kind,
        statistics: kind.statistics.filter((s) => this.hasHeatmap(kind.kind, s.name)),
      }))
      .filter((kind) => kind.statistics.length > 0);
    return { ...run, name: printable(run.name), kinds };
  }

  async tree(_run: string, kind: string) {
    return this.treeOf(kind).tree;
  }

  async heatmap(_run: string, request: HeatmapRequest) {
    const found = this.snapshot.heatmaps.find(
      (h) => h.kind === request.kind && h.statistic === request.statistic,
    );
    if (!found) throw lacking(`the ${request.statistic} of ${request.kind}`);
    const { numbers } = this.treeOf(request.kind);
    return sliceHeatmap(
      { ...found, rows: found.rows.map((row) => numbers.get(row) ?? -1) },
      request,
    );
  }

  async numbers(_run: string, window: Window) {
    return sliceNumbers(this.snapshot.numbers, window);
  }

  async curves() {
    return this.snapshot.curves;
  }

  async ranks(_run: string, request: RanksRequest) {
    const { kind, path } = request;
    const found = this.snapshot.ranks.find((r) => r.kind === kind && r.path === path);
    if (!found) throw lacking(`${kind} ${path} of all ranks`);
    return sliceRanks(found, request);
  }

  async series(_run: string, { kind, path }: Site, window: Window) {
    const found = this.snapshot.series.find((s) => s.kind === kind && s.path === path);
    if (!found) throw lacking(`the series of ${kind} ${path}`);
    return sliceSeries(found, window);
  }

  async distribution(_run: string, { kind, path }: Site) {
    const found = this.snapshot.distributions.find((d) => d.kind === kind && d.path === path);
    if (!found) throw lacking(`the histograms of ${kind} ${path}`);
    return found;
  }

  async pictures(_run: string, path: string) {
    const found = this.snapshot.pictures.find((p) => p.path === path);
    return { path, steps: found?.steps ?? [] };
  }

  pictureUrl(_run: string, path: string, step: number): string {
    const found = this.snapshot.pictures.find((p) => p.path === path);
    const png = found?.png[found.steps.indexOf(step)];
    return png === undefined ? "" : `data:image/png;base64,${png}`;
  }

  async compare(): Promise<never> {
    throw lacking("other runs");
  }

  async compareSeries(): Promise<never> {
    throw lacking("other runs");
  }

  hasHeatmap(kind: string, statistic: string): boolean {
    return (
      this.trees.has(kind) &&
      this.snapshot.heatmaps.some((h) => h.kind === kind && h.statistic === statistic)
    );
  }

  hasSeries(kind: string, path: string): boolean {
    return this.snapshot.series.some((s) => s.kind === kind && s.path === path);
  }

  hasRanks(kind: string, path: string): boolean {
    return this.snapshot.ranks.some((r) => r.kind === kind && r.path === path);
  }

  onChange(): () => void {
    return () => {};
  }

  onConnection(): () => void {
    return () => {};
  }

  private treeOf(kind: string): { tree: Tree; numbers: Map<number, number> } {
    const found = this.trees.get(kind);
    if (!found) throw lacking(`the heatmap of ${kind}`);
    return found;
  }
}

function lacking(what: string): RequestError {
  return new RequestError(
    404,
    `This report does not contain ${what}. Open the run with \`gradwatch view\`.`,
  );
}
