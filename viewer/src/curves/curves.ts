import { decodeDoubles } from "../api/doubles";
import type { CurvesData } from "../api/types";

/** What the horizontal axis of curves shows. */
export type Along = "step" | "epoch" | "time";

/** A loss or a metric over time. */
export interface Curve {
  kind: string;
  path: string;
  step: Float64Array;
  epoch: Float64Array;
  time: Float64Array;
  values: Float64Array;
}

export interface RunCurves {
  id: string;
  name: string;
  hasEpochs: boolean;
  curves: Curve[];
}

/** The curves of one chart: a number in training and in validation. */
export interface CurveChart {
  /** The path in training, such as "accuracy". */
  title: string;
  lines: ChartLine[];
}

export interface ChartLine {
  /** The index of the run. */
  run: number;
  curve: Curve;
  /** "train" is the number itself, "reported" the same as the training reports it. */
  role: "train" | "reported" | "validation";
}

export function decodeCurves({ runs }: CurvesData): RunCurves[] {
  return runs.map(({ id, name, has_epochs, curves }) => ({
    id,
    name,
    hasEpochs: has_epochs,
    curves: curves.map(({ kind, path, step, epoch, time, values }) => ({
      kind,
      path,
      step: Float64Array.from(step),
      epoch: decodeDoubles(epoch),
      time: decodeDoubles(time),
      values: decodeDoubles(values),
    })),
  }));
}

const VALIDATION = /(^|\/)val_(?=[^/]*$)/;

/**
 * The charts of runs: "x" and "val_x" together; losses first, learning rates last. What is reported
 * after steps is not shown once more after epochs. Of several runs, the number itself is enough.
 */
export function chartsOf(runs: readonly RunCurves[]): CurveChart[] {
  const charts = new Map<string, CurveChart>();
  runs.forEach(({ curves }, run) => {
    const kinds = new Map<string, Set<string>>();
    for (const { kind, path } of curves) kinds.set(path, (kinds.get(path) ?? new Set()).add(kind));
    for (const curve of curves) {
      const { kind, path } = curve;
      const own = kinds.get(path);
      if (kind === "epoch_metric" && (own?.has("metric") || own?.has("loss"))) continue;
      const again = kind === "metric" && own?.has("loss");
      if (again && runs.length > 1) continue;
      const validation = VALIDATION.test(path);
      const title = path.replace(VALIDATION, "$1");
      const chart = charts.get(title) ?? { title, lines: [] };
      const role = validation ? "validation" : again ? "reported" : "train";
      chart.lines.push({ run, curve, role });
      charts.set(title, chart);
    }
  });
  return [...charts.values()].sort((a, b) => rankOf(a) - rankOf(b));
}

function rankOf({ title }: CurveChart): number {
  const name = title.slice(title.lastIndexOf("/") + 1);
  if (name.endsWith("loss")) return name === "loss" ? 0 : 1;
  return /^(learning_rate|lr)$/.test(name) ? 3 : 2;
}

/** The positions of a curve's points. */
export function positionsOf(curve: Curve, along: Along): Float64Array {
  return curve[along];
}
