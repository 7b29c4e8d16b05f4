import type { Columns, RunData } from "../api/types";
import { count, stepRange } from "../format";
import type { Axis } from "./model";
import { percent } from "./numbers";

/** An axis of steps. Columns of several steps are drawn in their middle. */
export function stepAxis(columns: Pick<Columns, "first" | "last">, run: RunData): Axis {
  const { first, last } = columns;
  return {
    label: "step",
    position: Float64Array.from(first, (step, i) => (step + (last[i] ?? step)) / 2),
    name: (i) => stepRange(first[i] ?? 0, last[i] ?? 0),
    head: ["first_step", "last_step"],
    cells: (i) => [first[i] ?? 0, last[i] ?? 0],
    // All charts of a run begin and end with the run.
    limits: { low: run.first_step ?? 0, high: run.last_step ?? 0 },
    sections: epochSections(run),
    whole: true,
  };
}

/** An axis of given positions: steps, or shares of training. */
export function positionAxis(position: Float64Array, align: "step" | "fraction"): Axis {
  const steps = align === "step";
  return {
    label: steps ? "step" : "share of training",
    position,
    name: (i) => positionText(position[i] ?? 0, align),
    head: [steps ? "step" : "share_of_training"],
    cells: (i) => [position[i] ?? 0],
    sections: [],
    whole: steps,
  };
}

/** The beginnings of epochs. */
export function epochSections(run: Pick<RunData, "epochs">): Axis["sections"] {
  return run.epochs.map(({ epoch, first, exact }) => ({
    position: first,
    label: `epoch ${epoch}${exact ? "" : "?"}`,
  }));
}

/** "from step 12", or "from 25 % of training". */
export function positionText(position: number, align: "step" | "fraction"): string {
  return align === "step"
    ? `from step ${count(position)}`
    : `from ${percent(position)} of training`;
}
