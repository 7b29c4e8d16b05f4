import type { KindData, RunData } from "../api/types";
import { stepAxis } from "../charts/axes";
import type { Axis, LineModel, Mark } from "../charts/model";
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
    shares(series, axis),
  ];
}

function norms(series: Series, axis: Axis, marks: Mark[], unit: string): SiteChart {
  const { l2 = NONE, rms = NONE, linf = NONE } = series.statistics;
  return {
    id: "norms",
    scale: "log",
    switchable: true,
    model: {
      title: "Norms",
      unit,
      axis,
      marks,
      lines: [
        { name: "L2 norm", values: l2, colour: "series-1" },
        { name: "largest |x|", values: linf, colour: "series-2" },
        { name: "RMS", values: rms, colour: "series-3" },
      ],
    },
  };
}

function spread(series: Series, axis: Axis, marks: Mark[], unit: string): SiteChart {
  const { mean = NONE, std = NONE, min = NONE, max = NONE } = series.statistics;
  const shifted = (sign: number) => mean.map((value, i) => value + sign * (std[i] ?? Number.NaN));
  return {
    id: "spread",
    scale: "linear",
    switchable: false,
    model: {
      title: "Mean and spread",
      unit,
      axis,
      marks,
      lines: [{ name: "mean", values: mean, colour: "series-1" }],
      bands: [
        { name: "min–max", low: min, high: max, colour: "series-1", opacity: 0.18 },
        {
          name: "± std",
          low: shifted(-1),
          high: shifted(1),
          colour: "series-1",
          opacity: 0.3,
        },
      ],
    },
  };
}

function updateRatio(series: Series, axis: Axis, marks: Mark[]): SiteChart {
  return {
    id: "ratio",
    scale: "log",
    switchable: true,
    note: "how much of itself the weight changes by in a step",
    model: {
      title: "Update / weight",
      unit: "ratio of L2 norms",
      axis,
      marks,
      lines: [
        { name: "ratio", values: series.statistics.update_ratio ?? NONE, colour: "series-1" },
      ],
      rules: [{ value: 1e-3, label: "rule of thumb: about 0.001" }],
    },
  };
}

function shares(series: Series, axis: Axis): SiteChart {
  return {
    id: "shares",
    scale: "linear",
    switchable: true,
    model: {
      title: "Zeros and non-finite elements",
      unit: "share of elements",
      axis,
      include: [0],
      format: percent,
      lines: [
        { name: "NaN or infinite", values: series.nonfinite, colour: "nonfinite" },
        { name: "zero", values: series.zeros, colour: "series-1" },
      ],
    },
  };
}

function shareOfUnits(series: Series, axis: Axis, marks: Mark[], label: string): SiteChart {
  const { mean = NONE } = series.statistics;
  return {
    id: "units",
    scale: "linear",
    switchable: true,
    model: {
      title: label.charAt(0).toUpperCase() + label.slice(1),
      unit: "share",
      axis,
      marks,
      include: [0],
      format: percent,
      lines: [{ name: "share", values: mean, colour: "series-1" }],
    },
  };
}

function nonfiniteMarks({ nonfinite }: Series): Mark[] {
  return Array.from(nonfinite, (share, index) => ({ share, index }))
    .filter(({ share }) => share > 0)
    .map(({ share, index }) => ({ index, text: `${percent(share)} of the elements not finite` }));
}
