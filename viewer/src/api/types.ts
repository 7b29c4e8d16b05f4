/**
 * The answers of the server and the content of a report: the interface between
 * `src/gradwatch/view/data/` (Python) and this front end. All answers are strict JSON.
 *
 * All requests are GET. `run` is an opaque id; rows are node numbers of a tree:
 *
 *   /api/runs                                                       Runs
 *   /api/run?run                                                    RunData
 *   /api/tree?run&kind                                              Tree
 *   /api/heatmap?run&kind&statistic&revision&rows&columns[&from&to][&since&width]   HeatmapData
 *   /api/numbers?run&columns[&from&to][&since&width]                NumbersData
 *   /api/curves?runs&columns                                        CurvesData
 *   /api/ranks?run&kind&path&rows&columns[&from&to]                 RanksData
 *   /api/series?run&kind&path&columns[&from&to][&since&width]       SeriesData
 *   /api/distribution?run&kind&path&columns[&from&to]               DistributionData
 *   /api/pictures?run&path                                          PicturesData
 *   /api/picture?run&path&step                                      a PNG file
 *   /api/compare?runs&kind&statistic&align&pattern&columns          ComparisonData
 *   /api/compare-series?runs&kind&path&statistic&align&columns      ComparedSeries
 *   /api/events                                                     server-sent events: Change
 *
 * An error is a `Failure` with a status: 400 the request is invalid, 401 there is no session, 404
 * there is no such run or site, 409 the tree has changed and must be requested again.
 *
 * All requests but the first and the last three take `rank` for runs of several processes. A number
 * is one process; "all" merges outputs and averages losses of all processes; "first" is the first
 * process that has recorded a site. The default is an option of the server.
 *
 * `columns` is the greatest number of columns; neighbouring steps are merged to reach it. `from` and
 * `to` limit the steps. `since` and `width` limit the answer to columns that end at or after a step,
 * if columns still have this width; otherwise the answer has all columns and `complete` is true.
 */

/** Little-endian doubles in base64, with NaN and infinities. */
export type Doubles = string;

/** A number in JSON; values that are not finite are strings. */
export type JsonNumber = number | "nan" | "inf" | "-inf";

export type Status = "live" | "finished" | "crashed" | "damaged" | "empty" | "broken";
export type Severity = "info" | "warning" | "error";

export type Condition =
  | "error"
  | "damaged"
  | "stopped"
  | "warning"
  | "not diagnosed"
  | "running"
  | "ok";

/** How a run is, in one word and one line, which may be empty. */
export interface Health {
  condition: Condition;
  headline: string;
  /** The number of findings by severity. */
  errors: number;
  warnings: number;
}

export interface Failure {
  error: string;
}

export interface Runs {
  /** The directory of the runs, as given by the user. */
  directory: string;
  version: string;
  runs: RunEntry[];
}

/** A run in the list. Values that are not known yet are null; a later answer has them. */
export interface RunEntry {
  id: string;
  name: string;
  status: Status | null;
  /** Seconds since 1970. */
  started: number | null;
  /** Seconds from the first to the last record. */
  duration: number | null;
  last_step: number | null;
  /** The number of measured steps. */
  steps: number | null;
  sites: number | null;
  /** The last value of the first loss. */
  loss: JsonNumber | null;
  /** The last value of each metric, by name. */
  metrics: Record<string, JsonNumber> | null;
  /** The first loss over the run, in a few means. */
  course: JsonNumber[] | null;
  /** The settings of the run, by name. */
  config: Record<string, Setting> | null;
  tags: string[] | null;
  note: string | null;
  health: Health | null;
  /** Why the run cannot be opened; its status is "broken". */
  error: string | null;
}

/** A setting; numbers that are not finite are strings. */
export type Setting = boolean | number | string | null;

export interface RunData {
  id: string;
  name: string;
  status: Status;
  health: Health;
  started: number | null;
  duration: number;
  first_step: number | null;
  last_step: number | null;
  /** The number of measured steps. */
  steps: number;
  /** The processes that have recorded the run. */
  ranks: number[];
  /** The rank of the numbers: "first", "all" or a number. */
  rank: string;
  /** The states of the processes; null for a run of one process. */
  processes: Processes | null;
  epochs: EpochData[];
  /** The kinds that have a heatmap, the default first. */
  kinds: KindData[];
  /** The paths of single numbers: losses, learning rates, scalars. */
  numbers: { kind: string; path: string }[];
  /** What is measured, in words, by kind. */
  meaning: Record<string, string>;
  findings: Finding[];
  /** Whether the whole run has been checked; if not, a `Change` follows. */
  findings_complete: boolean;
  /** The rules that found something, by their names; without those that are unknown here. */
  rules: Record<string, Rule>;
  /** What the training came to; null while it goes on. */
  learning: Verdict | null;
  /** Facts in display order: schedule, cost, versions, batch size, ... */
  facts: { name: string; value: string }[];
  /** The cost of the monitor, in words; empty if unknown. */
  cost: string;
  /** Which data cannot be read, in words. */
  damage: string[];
  lost_rows: number;
  /** The variables with pictures. */
  pictured: string[];
}

/** Epochs come in the order of steps; each `fit` of a run counts them anew. */
export interface EpochData {
  epoch: number;
  first: number;
  last: number;
  /** Whether `first` is its first step, and not only the first that was recorded. */
  exact: boolean;
}

/** One entry for each process, by rank, also for processes without data. */
export interface Processes {
  rank: number[];
  /** "empty" is a missing process, which has recorded nothing. */
  status: Status[];
  first_step: (number | null)[];
  /** Seconds since 1970. */
  first_time: (number | null)[];
  last_step: (number | null)[];
  last_time: (number | null)[];
  /** The numbers that several processes have recorded: loss, step time, ... */
  numbers: { kind: string; path: string }[];
}

export interface KindData {
  kind: string;
  /** The name for display, such as "update / weight". */
  label: string;
  statistics: StatisticData[];
  sites: number;
}

export interface StatisticData {
  name: string;
  /** "L2 norm" */
  label: string;
  /** The unit, for legends and axes; "" if there is none. */
  unit: string;
  /** The colour scale: "log" for magnitudes, "signed" around 0, "linear" for shares. */
  scale: "log" | "signed" | "linear";
}

/** Whether the training has come to anything. */
export interface Verdict {
  word: string;
  text: string;
  step: number;
  evidence: Record<string, number>;
  interval: [low: number, high: number] | null;
  generalises: boolean | null;
  since_epoch: number | null;
}

/** What a rule looks for, and the numbers that it compares with. */
export interface Rule {
  rule: string;
  severity: Severity;
  about: string;
  remedy: string;
  thresholds: Record<string, { value: JsonNumber; reason: string }>;
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
 * The possible rows of a kind: blocks, layers and sites in network order, parents before children.
 * A chain of single children is one node with "/" in its label. The path of a node is the labels
 * from the root to the node, joined by "/".
 */
export interface Tree {
  kind: string;
  /** Changes when the nodes change. */
  revision: string;
  label: string[];
  /** The number of the parent; -1 for roots. */
  parent: number[];
  /** Whether the node is a site; other nodes are their merged sites. */
  site: boolean[];
  /** The number of sites at and below the node. */
  count: number[];
  /** The shape and dtype of a site, such as "3x3x16 float32"; "" if unknown. */
  shape: string[];
}

export interface Columns {
  /** The first and the last measured step of each column. */
  first: number[];
  last: number[];
  /** The width of columns in steps. */
  width: number;
  /** Whether these are all columns; if not, those that have changed. */
  complete: boolean;
}

/** A column of several steps shows the average of its steps; see `Heatmap` of the reader. */
export interface HeatmapData extends Columns {
  kind: string;
  statistic: string;
  revision: string;
  /** The node of each row. */
  rows: number[];
  /** Rows by columns; NaN if there is no value. */
  values: Doubles;
  /** The cells with NaN or infinite elements: row, column, number of elements. */
  nonfinite: [row: number, column: number, count: number][];
}

/** Losses, learning rates and other numbers, each with its own columns. */
export interface NumbersData {
  numbers: (Columns & {
    kind: string;
    path: string;
    values: Doubles;
    /** The range of all ranks, for the first few numbers of several ranks. */
    ranks: RankBand<Doubles> | null;
  })[];
}

/** The losses and metrics of runs. */
export interface CurvesData {
  runs: {
    id: string;
    name: string;
    /** Whether epochs are known. */
    has_epochs: boolean;
    curves: CurveData[];
  }[];
}

export interface CurveData {
  /** "loss" of single steps, "metric" as reported after steps, "epoch_metric" after epochs. */
  kind: string;
  path: string;
  /** The step of each point; of a column of several steps, the last. */
  step: number[];
  /** The number of epochs that have passed, with their fraction; NaN if not known. */
  epoch: Doubles;
  /** Seconds since the run was started. */
  time: Doubles;
  values: Doubles;
}

/** The least, the median and the greatest finite value of all ranks, by column. */
export interface RankBand<Numbers> {
  low: Numbers;
  median: Numbers;
  high: Numbers;
}

/** The values of a number on all ranks. */
export interface RanksData extends Columns, RankBand<Doubles> {
  kind: string;
  path: string;
  ranks: number[];
  /**
   * The number of neighbouring ranks that share a row; the last row may have fewer. A cell shows the
   * value that is furthest from the median of all ranks.
   */
  together: number;
  /** Rows by columns; NaN if there is no value. */
  values: Doubles;
  /** The cells with NaN or infinite values: row, column, number of values. */
  nonfinite: [row: number, column: number, count: number][];
}

export interface SeriesData extends Columns {
  kind: string;
  path: string;
  /** The number of merged tensors; 1 for a site. */
  sites: number;
  shape: string;
  /** The number of elements at the last step. */
  elements: number;
  /** By name: every statistic that is no count; for updates also update_ratio. */
  statistics: Record<string, Doubles>;
  /** The shares of elements that are 0, and that are not finite. */
  zeros: Doubles;
  nonfinite: Doubles;
  /** What is measured, in words. */
  meaning: string;
  /** The findings about the site or its layer: indices of `RunData.findings`. */
  findings: number[];
  /** The steps with histograms. */
  histogram_steps: number[];
}

export interface DistributionData {
  kind: string;
  path: string;
  steps: number[];
  /** The levels of the quantiles from 0 to 1, ascending. */
  levels: number[];
  /** Steps by levels. */
  quantiles: Doubles;
  /** The borders of the bins, ascending, the same for all steps: bins + 1 values. */
  edges: Doubles;
  /** Steps by bins: the share of the finite elements in each bin. */
  shares: Doubles;
  /** What casts of the last step's tensor would lose; empty if all its elements are 0. */
  casts: CastData[];
}

/** The shares of the finite elements other than 0, from the least to the most that they can be. */
export interface CastData {
  format: string;
  zero: [number, number];
  subnormal: [number, number];
  overflow: [number, number];
}

export interface PicturesData {
  path: string;
  steps: number[];
}

export interface ComparisonData {
  /** The first run is the reference of the comparison. */
  runs: { id: string; name: string }[];
  kind: string;
  statistic: string;
  align: "step" | "fraction";
  /** The paths in the first run of layers and sites that all runs have, in network order. */
  paths: string[];
  /** Whether each path is a layer with merged sites. */
  merged: boolean[];
  /** For each path, the weakest reason why its sites are the same in all runs. */
  matched: MatchedBy[];
  /** The paths in each other run; "" for merged sites of several layers. */
  counterparts: string[][];
  /** For each run, the number of sites that not all runs have. */
  only: number[];
  /** The beginning of each column: a step, or a share of training. */
  position: Doubles;
  /** Where each run ends: after its last step, or at 1. */
  ends: number[];
  /** The number of steps in a column, or the share of training. */
  width: number;
  /** Runs by paths by columns; NaN where it was not measured, or an element is NaN. */
  values: Doubles;
  /** The values that were measured and are NaN or infinite; row 0 is the model, then the paths. */
  nonfinite: [run: number, row: number, column: number][];
  /** Runs by columns: all sites of each run, also those that other runs do not have. */
  model: Doubles;
}

/**
 * Why sites of different runs are the same: they have the same path, the same path without the
 * model's name and counters, or the same position and shape.
 */
export type MatchedBy = "path" | "name" | "shape";

export interface ComparedSeries {
  kind: string;
  path: string;
  statistic: string;
  align: "step" | "fraction";
  runs: { id: string; name: string; position: Doubles; values: Doubles }[];
}

/** Sent when runs or the list of runs have changed. */
export interface Change {
  list: boolean;
  runs: string[];
}

/** The content of a report: answers of the server. */
export interface Snapshot {
  version: string;
  /** When the report was made, in seconds since 1970. */
  made: number;
  run: RunData;
  trees: Tree[];
  /** The heatmaps of the chosen statistics, of as many nodes as fit. */
  heatmaps: HeatmapData[];
  numbers: NumbersData;
  curves: CurvesData;
  /** The first few numbers of several ranks. */
  ranks: RanksData[];
  /** The series of the most important sites, the worst first. */
  series: SeriesData[];
  distributions: DistributionData[];
  pictures: { path: string; steps: number[]; png: string[] }[];
}
