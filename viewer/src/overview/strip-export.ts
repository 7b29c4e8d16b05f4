import type { RunData } from "../api/types";
import type { Exportable } from "../charts/export";
import { seriesColour } from "../charts/model";
import { tickTexts } from "../charts/numbers";
import { stepTicks } from "../charts/scale";
import { element, line, picture, text } from "../charts/svg";
import { count, short } from "../format";
import { colour } from "../theme";
import { type Range, timeScale } from "../time/range";
import { type NumberGroup, nameOf } from "./numbers";
import { bandPieces, linePieces, stripLayout } from "./strip-drawing";

const LEFT = 190;
const WIDTH = 820;
const HEIGHT = 110;
const GAP = 16;
const TOP = 30;
/** Of a run of several ranks, how far these are apart. */
const BAND = ["low", "median", "high"] as const;

/** The charts of numbers as one picture, and as a table. */
export function exportedNumbers(run: RunData, groups: NumberGroup[], range: Range): Exportable {
  const banded = groups.some(({ series }) => series.some(({ ranks }) => ranks !== null));
  return {
    name: [run.name, "numbers"],
    svg: () => svgOf(run, groups, range),
    table: () => ({
      head: ["kind", "path", "first_step", "last_step", "value", ...(banded ? BAND : [])],
      rows: groups.flatMap((group) =>
        group.series.flatMap((series) =>
          Array.from(series.values, (value, i) => [
            series.kind,
            series.path,
            series.first[i] ?? "",
            series.last[i] ?? "",
            value,
            ...(banded ? BAND.map((name) => series.ranks?.[name][i] ?? "") : []),
          ]),
        ),
      ),
    }),
  };
}

function svgOf(run: RunData, groups: NumberGroup[], range: Range): string {
  const scale = timeScale(range, WIDTH);
  const parts = groups.map((group, i) => chart(group, range, TOP + i * (HEIGHT + GAP)));
  const bottom = TOP + groups.length * (HEIGHT + GAP) - GAP;
  const steps = stepTicks({ low: range.from, high: range.to }, 8).map((tick) =>
    text(LEFT + scale.x(tick + 0.5), bottom + 16, count(tick), { "text-anchor": "middle" }),
  );
  const content = [
    text(12, 18, run.name, { fill: colour("--ink"), "font-weight": 600 }),
    ...parts,
    ...steps,
    text(LEFT + WIDTH / 2, bottom + 32, "step", { "text-anchor": "middle" }),
  ];
  return picture(LEFT + WIDTH + 16, bottom + 42, run.name, content.join(""));
}

function chart(group: NumberGroup, range: Range, top: number): string {
  const scale = timeScale(range, WIDTH);
  const layout = stripLayout(group, scale, HEIGHT);
  const texts = layout.kind === "log" ? layout.ticks.map(short) : tickTexts(layout.ticks);
  const parts = layout.ticks.flatMap((tick, i) => {
    const y = top + layout.y(tick);
    return [
      line(LEFT, y, LEFT + WIDTH, y, { stroke: colour("--grid") }),
      text(LEFT - 6, y + 4, texts[i] ?? "", { "text-anchor": "end" }),
    ];
  });
  group.series.forEach((series, i) => {
    const ink = colour(`--${seriesColour(i)}`);
    parts.push(text(12, top + 14 + i * 15, nameOf(series).slice(0, 24), { fill: ink }));
    for (const corners of bandPieces(series, scale, layout).area)
      parts.push(element("polygon", { points: spelled(corners, top), fill: ink, opacity: 0.2 }));
    const { pieces, nonfinite } = linePieces(series, scale, layout);
    for (const piece of pieces) {
      const points = spelled(piece, top);
      parts.push(element("polyline", { points, fill: "none", stroke: ink }));
    }
    for (const { x, width } of nonfinite)
      parts.push(
        element("rect", {
          x: LEFT + x,
          y: top,
          width,
          height: HEIGHT,
          fill: colour("--nonfinite"),
        }),
      );
  });
  return parts.join("");
}

/** Corners as SVG has them, without those outside of the plot. */
function spelled(corners: readonly [number, number][], top: number): string {
  return corners
    .filter(([x]) => x >= 0 && x <= WIDTH)
    .map(([x, y]) => `${(LEFT + x).toFixed(2)},${(top + y).toFixed(2)}`)
    .join(" ");
}
