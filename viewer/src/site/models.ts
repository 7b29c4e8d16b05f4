import type { KindData, RunData, StatisticData } from "../api/types";
import { stepAxis } from "../charts/axes";
import type { Axis, Band, Line, LineModel, Mark } from "../charts/model";
import { percent } from "../charts/numbers";
import type { Series } from "./series";

/** The charts of a site. */

export interface SiteChart {
  /** The name of the chart in the address, for its scale. */
  id: string;
  model: LineModel;
  scale: "log" | "linear";
  /** Whether the user can choose the scale. */
  switchable: boolean;
  note?: string;
}

const NONE = new Float64Array();

/** Statistics that are in a chart together, or in none. Every other has a chart of its own. */
const GROUPED = ["l1", "l2", "linf", "rms", "mean", "std", "min", "max", "sum", "update_ratio"];

export function siteCharts(series: Series, run: RunData, kind: KindData | undefined): SiteChart[] {
  const axis = stepAxis(series.about, run);
  const marks = nonfiniteMarks(series);
  const about = kind?.statistics ?? [];
  // Values that are 0 or 1 for each unit have a mean that is a share, and no useful norms.
  if (about.length > 0 && about.every(({ scale }) => scale === "linear"))
    return [shareOfUnits(series, axis, marks, about[0]?.label ?? "share")];
  const unit = (name: string) => about.find((one) => one.name === name)?.unit ?? "";
  return [
    ...("update_ratio" in series.statistics ? [updateRatio(series, axis, marks)] : []),
    norms(series, axis, marks, unit("l2")),
    spread(series, axis, marks, unit("mean")),
    ...about
      .filter(({ name }) => name in series.statistics && !GROUPED.includes(name))
      .map((statistic) => single(series, axis, marks, statistic)),
    shares(series, axis),
  ];
}

function norms(series: Series, axis: Axis, marks: Mark[], unit: string): SiteChart {
  const { l2 = NONE, rms = NONE, linf = NONE } = series.statistics;
  const lines: Line[] = [
    { name: "L2 norm", values: l2, colour: "series-1" },
    { name: "largest |x|", values: linf, colour: "series-2" },
    { name: "RMS", values: rms, colour: "series-3" },
  ];
  const model = { title: "Norms", unit, axis, marks, lines };
  return { id: "norms", scale: "log", switchable: true, model };
}

function spread(series: Series, axis: Axis, marks: Mark[], unit: string): SiteChart {
  const { mean = NONE, std = NONE, min = NONE, max = NONE } = series.statistics;
  const shifted = (sign: number) => mean.map((value, i) => value + sign * (std[i] ?? Number.NaN));
  const [low, high] = [shifted(-1), shifted(1)];
  const lines: Line[] = [{ name: "mean", values: mean, colour: "series-1" }];
  const bands: Band[] = [
    { name: "min–max", low: min, high: max, colour: "series-1", opacity: 0.18 },
    { name: "± std", low, high, colour: "series-1", opacity: 0.3 },
  ];
  const model = { title: "Mean and spread", unit, axis, marks, lines, bands };
  return { id: "spread", scale: "linear", switchable: false, model };
}

function single(series: Series, axis: Axis, marks: Mark[], about: StatisticData): SiteChart {
  const { name, label, unit, scale } = about;
  const values = series.statistics[name] ?? NONE;
  const lines: Line[] = [{ name: label, values, colour: "series-1" }];
  const model = { title: capitalized(label), unit, axis, marks, lines };
  return {
    id: name,
    scale: scale === "log" ? "log" : "linear",
    switchable: scale !== "signed",
    model,
  };
}

function updateRatio(series: Series, axis: Axis, marks: Mark[]): SiteChart {
  const values = series.statistics.update_ratio ?? NONE;
  const lines: Line[] = [{ name: "ratio", values, colour: "series-1" }];
  const rules = [{ value: 1e-3, label: "rule of thumb: about 0.001" }];
  const model = { title: "Update / weight", unit: "ratio of L2 norms", axis, marks, lines, rules };
  const note = "relative change of the weight in a step";
  return { id: "ratio", scale: "log", switchable: true, note, model };
}

function shares({ nonfinite, zeros }: Series, axis: Axis): SiteChart {
  const lines: Line[] = [
    { name: "NaN or infinite", values: nonfinite, colour: "nonfinite" },
    { name: "zero", values: zeros, colour: "series-1" },
  ];
  const title = "Zeros and non-finite elements";
  const model = { title, unit: "share of elements", axis, lines, include: [0], format: percent };
  return { id: "shares", scale: "linear", switchable: true, model };
}

function shareOfUnits(series: Series, axis: Axis, marks: Mark[], label: string): SiteChart {
  const { mean = NONE } = series.statistics;
  const lines: Line[] = [{ name: "share", values: mean, colour: "series-1" }];
  const title = capitalized(label);
  const model = { title, unit: "share", axis, marks, lines, include: [0], format: percent };
  return { id: "units", scale: "linear", switchable: true, model };
}

function capitalized(label: string): string {
  return label.charAt(0).toUpperCase() + label.slice(1);
}

function nonfiniteMarks({ nonfinite }: Series): Mark[] {
  return Array.from(nonfinite, (share, index) => ({ share, index }))
    .filter(({ share }) => share > 0)
    .map(({ share, index }) => ({ index, text: `${percent(share)} of the elements not finite` }));
}
