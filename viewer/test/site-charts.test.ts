import { describe, expect, test } from "vitest";
import type { KindData, RunData } from "../src/api/types";
import { siteCharts } from "../src/site/models";
import type { Series } from "../src/site/series";

const RUN = { epochs: [] } as unknown as RunData;
const values = Float64Array.of(1, 2);

function seriesOf(...names: string[]): Series {
  return {
    about: { first: [1, 2], last: [1, 2] },
    statistics: Object.fromEntries(names.map((name) => [name, values])),
    zeros: values,
    nonfinite: Float64Array.of(0, 0),
  } as unknown as Series;
}

const KIND = {
  statistics: [
    { name: "l2", label: "L2 norm", unit: "loss", scale: "log" },
    { name: "crest", label: "crest", unit: "m", scale: "linear" },
    { name: "zeros", label: "zeros", unit: "", scale: "linear" },
  ],
} as KindData;

describe("charts of a site", () => {
  test("a statistic that the page does not know has a chart of its own", () => {
    const charts = siteCharts(seriesOf("l2", "mean", "crest"), RUN, KIND);
    expect(charts.map(({ id }) => id)).toEqual(["norms", "spread", "crest", "shares"]);
    const own = charts[2];
    expect(own?.model.title).toBe("Crest");
    expect(own?.model.unit).toBe("m");
    expect(own?.scale).toBe("linear");
    expect(own?.model.lines.map(({ values }) => values)).toEqual([values]);
  });

  test("norms take their unit from the kind", () => {
    const norms = siteCharts(seriesOf("l2"), RUN, KIND).find(({ id }) => id === "norms");
    expect(norms?.model.unit).toBe("loss");
  });
});
