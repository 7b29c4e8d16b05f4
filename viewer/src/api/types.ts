/**
 * What the server answers, and what a report carries inside itself: the one contract between
 * `src/gradwatch/view/data/` (Python) and this front end. All answers are strict JSON.
 *
 * Requests, all GET; `run` is an opaque id, rows are numbers of a tree's nodes:
 *
 *   /api/runs                                                       Runs
 *   /api/run?run                                                    RunData
 *   /api/tree?run&kind                                              Tree
 *   /api/select?run&kind&pattern                                    Selection
 *   /api/heatmap?run&kind&statistic&revision&rows&columns[&from&to][&since&width]   HeatmapData
 *   /api/numbers?run&columns[&from&to][&since&width]                NumbersData
 *   /api/ranks?run&kind&path&rows&columns[&from&to]                 RanksData
 *   /api/series?run&kind&path&columns[&from&to][&since&width]       SeriesData
 *   /api/distribution?run&kind&path&columns[&from&to]               DistributionData
 *   /api/pictures?run&path                                          PicturesData
 *   /api/picture?run&path&step                                      a PNG file
 *   /api/compare?runs&kind&statistic&align&pattern&columns          ComparisonData
 *   /api/compare-series?runs&kind&path&statistic&align&columns      ComparedSeries
 *   /api/events                                                     server-sent events: Change
 *
 * A request that cannot be answered is answered by `Failure` and a status: 400 it is wrong, 401
 * without a session, 404 there is no such run or site, 409 the tree has changed: ask for it anew.
 *
 * Of a run of several processes all but the first and the last three take `rank`: whose numbers
 * are asked for. A number is that process; "all" is all of them, outputs merged and losses
 * averaged; "first" is of each site the first process that has recorded it. Without it, it is
 * what the server was started with.
 *
 * `columns`: at most so many columns; neighbouring steps are merged until there are no more.
 * `from`, `to`: only these steps. `since` and `width`: only columns that end at or after that
 * step, if columns still are that wide; otherwise all of them (`complete` is true then).
 */

/** Doubles, little-endian, in base64: exact, with NaN and infinities as they are. */
export type Doubles = string;

/** A number in JSON, where those that are not finite have a spelling. */
export type JsonNumber = number | "nan" | "inf" | "-inf";

export type Status = "live" | "finished" | "crashed" | "damaged" | "empty" | "broken";
export type Severity = "info" | "warning" | "error";

export interface Failure {
  error: string;
}

export interface Runs {
  /** The directory that is shown, as the user gave it. */
  directory: string;
  version: string;
  runs: RunEntry[];
}

/** A run in the list; what is not known yet is null and comes with a later answer. */
export interface RunEntry {
  id: string;
  name: string;
  status: Status | null;
  /** Seconds since 1970. */
  started: number | null;
  /** Seconds from the first to the last record. */
  duration: number | null;
  last_step: number | null;
  /** How many steps were measured. */
  steps: number | null;
  sites: number | null;
  /** The last value of the first loss. */
  loss: JsonNumber | null;
  /** How many findings that are alarms, by severity. */
  health: { errors: number; warnings: number } | null;
  /** Why it cannot be opened; status is "broken" then. */
  error: string | null;
}

export interface RunData {
  id: string;
  name: string;
  status: Status;
  started: number | null;
  duration: number;
  first_step: number | null;
  last_step: number | null;
  /** How many steps were measured. */
  steps: number;
  /** The processes that have recorded it. */
  ranks: number[];
  /** Whose numbers these are: "first", "all" or a number. */
  rank: string;
  /** How the processes stand that train together; null for a run of one. */
  processes: Processes | null;
  epochs: { epoch: number; first: number; last: number }[];
  /** The kinds that have a heatmap, the one to show first first. */
  kinds: KindData[];
  /** The paths of kinds that are one number: losses, learning rates, scalars. */
  numbers: { kind: string; path: string }[];
  /** By kind, in words, what is measured. */
  meaning: Record<string, string>;
  findings: Finding[];
  /** Whether all of the run has been looked at for them; if not, a `Change` follows. */
  findings_complete: boolean;
  /** Facts for people, in the order to show them: schedule, cost, versions, batch size, ... */
  facts: { name: string; value: string }[];
  /** What the monitor itself has cost, in words; empty if unknown. */
  cost: string;
  /** What cannot be read, in words. */
  damage: string[];
  lost_rows: number;
  /** The variables that pictures were drawn of. */
  pictured: string[];
}

/** One entry a process, in the order of ranks; also of those that have recorded nothing. */
export interface Processes {
  rank: number[];
  /** "empty" is one that is missing: it has recorded nothing. */
  status: Status[];
  first_step: (number | null)[];
  /** Seconds since 1970. */
  first_time: (number | null)[];
  last_step: (number | null)[];
  last_time: (number | null)[];
  /** The numbers that several of them have, each its own: loss, step time, ... */
  numbers: { kind: string; path: string }[];
}

export interface KindData {
  kind: string;
  /** What to call it: "update / weight" for the kind "update" with update_ratio, say. */
  label: string;
  statistics: StatisticData[];
  sites: number;
}

export interface StatisticData {
  name: string;
  /** "L2 norm" */
  label: string;
  /** What the numbers are, for legends and axes; "" if they have no unit. */
  unit: string;
  /** How it is best coloured: magnitudes logarithmically, signed ones around 0, shares from 0 to 1. */
  scale: "log" | "signed" | "linear";
}

export interface Finding {
  rule: string;
  severity: Severity;
  title: string;
  since: number;
  detected: number;
  until: number | null;
  layer: string;
  sites: [kind: string, path: string][];
  evidence: Record<string, JsonNumber | string>;
  remedy: string;
  group: string;
  explained_by: string;
}

/**
 * The rows that a kind can be shown in: blocks, layers and sites in network order, a parent
 * before its children. Chains of only children are one node with a "/" in its label. The
 * labels from the root to a node, joined by "/", are its path.
 */
export interface Tree {
  kind: string;
  /** Changes when there are other nodes. */
  revision: string;
  label: string[];
  /** The number of the parent; -1 for roots. */
  parent: number[];
  /** Whether the node is itself measured; others are their sites merged. */
  site: boolean[];
  /** How many sites there are at and below it. */
  count: number[];
  /** Of sites: shape and dtype such as "3x3x16 float32"; "" if unknown. */
  shape: string[];
}

/** The nodes of a tree that a selector selects; sites only. */
export interface Selection {
  revision: string;
  nodes: number[];
}

export interface Columns {
  /** The first and the last measured step of each column. */
  first: number[];
  last: number[];
  /** How many steps wide columns are. */
  width: number;
  /** Whether these are all columns, rather than those that have changed. */
  complete: boolean;
}

/** A column of several steps shows their average step; see `Heatmap` of the reader. */
export interface HeatmapData extends Columns {
  kind: string;
  statistic: string;
  revision: string;
  /** The nodes, one a row. */
  rows: number[];
  /** Rows by columns; NaN where nothing was measured or nothing is defined. */
  values: Doubles;
  /** The cells with elements that were NaN or infinite: row's place, column, how many. */
  nonfinite: [row: number, column: number, count: number][];
}

/** Losses, learning rates and other numbers; each has its own columns. */
export interface NumbersData {
  numbers: (Columns & {
    kind: string;
    path: string;
    values: Doubles;
    /** Of the first few that several ranks have: how far apart these are. */
    ranks: RankBand<Doubles> | null;
  })[];
}

/** The least, the median and the greatest of the finite values of all ranks, one a column. */
export interface RankBand<Numbers> {
  low: Numbers;
  median: Numbers;
  high: Numbers;
}

/** A number on every rank that has it. */
export interface RanksData extends Columns, RankBand<Doubles> {
  kind: string;
  path: string;
  ranks: number[];
  /**
   * So many neighbouring ranks share a row, the last one fewer. In each column it shows the one
   * that is furthest from the median of all.
   */
  together: number;
  /** Rows by columns; NaN where nothing was measured. */
  values: Doubles;
  /** The cells with values that were NaN or infinite: row, column, how many. */
  nonfinite: [row: number, column: number, count: number][];
}

export interface SeriesData extends Columns {
  kind: string;
  path: string;
  /** How many tensors are merged in it; 1 for a site. */
  sites: number;
  shape: string;
  /** Elements at the last step. */
  elements: number;
  /** By name, one value a column. Always l1, l2, linf, rms, mean, std, min, max; and of updates update_ratio. */
  statistics: Record<string, Doubles>;
  /** The share of elements that are 0, and that are not finite. */
  zeros: Doubles;
  nonfinite: Doubles;
  /** In words, what is measured. */
  meaning: string;
  /** The findings that name it or its layer: their places in `RunData.findings`. */
  findings: number[];
  /** The steps at which histograms were taken. */
  histogram_steps: number[];
}

export interface DistributionData {
  kind: string;
  path: string;
  steps: number[];
  /** The levels of the quantiles, ascending, from 0 to 1. */
  levels: number[];
  /** Steps by levels. */
  quantiles: Doubles;
  /** The borders of the bins, ascending, the same for all steps: bins + 1 values. */
  edges: Doubles;
  /** Steps by bins: the share of the finite elements in each bin. */
  shares: Doubles;
}

export interface PicturesData {
  path: string;
  steps: number[];
}

export interface ComparisonData {
  /** The first is what the others are compared with. */
  runs: { id: string; name: string }[];
  kind: string;
  statistic: string;
  align: "step" | "fraction";
  /** What all runs have: layers' and sites' paths in network order. */
  paths: string[];
  /** Whether each of them is a layer, its sites merged, rather than one site. */
  merged: boolean[];
  /** How many sites of each run not all have. */
  only: number[];
  /** Where each column begins: a step, or the share of training that has passed. */
  position: Doubles;
  /** Runs by paths by columns. */
  values: Doubles;
}

export interface ComparedSeries {
  kind: string;
  path: string;
  statistic: string;
  align: "step" | "fraction";
  runs: { id: string; name: string; position: Doubles; values: Doubles }[];
}

/** Sent when runs have changed or the list has; ask for what is shown from its last step on. */
export interface Change {
  list: boolean;
  runs: string[];
}

/** What a report carries: answers that are already there. */
export interface Snapshot {
  version: string;
  /** When it was made, in seconds since 1970. */
  made: number;
  run: RunData;
  trees: Tree[];
  /** Of all nodes of their trees, or of as many as fit; the statistics that were chosen. */
  heatmaps: HeatmapData[];
  numbers: NumbersData;
  /** Of the first few numbers that ranks have of their own. */
  ranks: RanksData[];
  /** Of the sites that matter most, worst first. */
  series: SeriesData[];
  distributions: DistributionData[];
  pictures: { path: string; steps: number[]; png: string[] }[];
}
