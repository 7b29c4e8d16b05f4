import type { KindData, RunData, StatisticData } from "../api/types";
import type { Exportable } from "../charts/export";
import { stepTicks } from "../charts/scale";
import { element, picture, text } from "../charts/svg";
import type { Table } from "../charts/table";
import { count } from "../format";
import { cellOf } from "../heatmap/band";
import { LEVELS, ZERO } from "../heatmap/colours";
import type { Loader } from "../heatmap/loader";
import type { Forest } from "../heatmap/rows";
import { colour } from "../theme";
import { type Range, timeScale } from "../time/range";

const LEFT = 300;
const WIDTH = 820;
const ROW = 15;
const TOP = 44;
const LEGEND = 240;

export interface Exported {
  run: RunData;
  kind: KindData;
  statistic: StatisticData;
  forest: Forest;
  loader: Loader;
  range: Range;
}

/** The heatmap of some rows as a picture and as a table: a line for each cell. */
export function exportedHeatmap(what: Exported, rows: () => number[]): Exportable {
  const { run, kind, statistic } = what;
  return {
    name: [run.name, kind.kind, statistic.name],
    svg: () => svgOf(what, rows()),
    table: () => cellTable(what, rows()),
  };
}

/** A line for each measured cell of some rows. */
export function cellTable({ forest, loader, range, statistic }: Exported, rows: number[]): Table {
  const lines: Table["rows"] = [];
  for (const node of rows) {
    const band = loader.band(node);
    const row = band?.place.get(node);
    if (!band || row === undefined) continue;
    band.first.forEach((_, column) => {
      const cell = cellOf(band, row, column);
      if (cell.last < range.from || cell.first > range.to) return;
      if (Number.isNaN(cell.value) && cell.nonfinite === 0) return;
      lines.push([forest.path[node] ?? "", cell.first, cell.last, cell.value, cell.nonfinite]);
    });
  }
  return { head: ["path", "first_step", "last_step", statistic.name, "nonfinite"], rows: lines };
}

function svgOf(what: Exported, rows: number[]): string {
  const { run, kind, statistic, range } = what;
  const scale = timeScale(range, WIDTH);
  const bottom = TOP + rows.length * ROW;
  const title = `${run.name} · ${kind.label}: ${statistic.label}`;
  const unit = statistic.unit ? ` (${statistic.unit})` : "";
  const labels = rows.map((node, i) => {
    const path = what.forest.path[node] ?? "";
    const shown = path.length > 46 ? `…${path.slice(-45)}` : path;
    return text(LEFT - 8, TOP + i * ROW + 11, shown, { "text-anchor": "end" });
  });
  const steps = stepTicks({ low: range.from, high: range.to }, 8).map((tick) =>
    text(LEFT + scale.x(tick + 0.5), bottom + 16, count(tick), { "text-anchor": "middle" }),
  );
  const content = [
    text(12, 18, title + unit, { fill: colour("--ink"), "font-weight": 600 }),
    legend(what.loader, LEFT + WIDTH - LEGEND),
    element("rect", {
      x: LEFT,
      y: TOP,
      width: WIDTH,
      height: bottom - TOP,
      fill: colour("--panel"),
    }),
    ...labels,
    ...cellPaths(what, rows),
    ...steps,
    text(LEFT + WIDTH / 2, bottom + 32, "step", { "text-anchor": "middle" }),
  ];
  return picture(LEFT + WIDTH + 16, bottom + 42, title, content.join(""));
}

/** One path for each colour, of all its cells: far smaller than one rectangle for each cell. */
function cellPaths({ loader, range }: Exported, rows: number[]): string[] {
  const scale = timeScale(range, WIDTH);
  const byColour = new Map<string, string[]>();
  rows.forEach((node, i) => {
    const band = loader.band(node);
    const row = band?.place.get(node);
    if (!band || row === undefined) return;
    band.first.forEach((step, column) => {
      const left = halfPixel(Math.max(0, scale.x(step)));
      const right = halfPixel(Math.min(WIDTH, scale.x(band.ends[column] ?? step)));
      const { value, nonfinite } = cellOf(band, row, column);
      if (right <= left || (Number.isNaN(value) && nonfinite === 0)) return;
      const fill =
        nonfinite > 0 || !Number.isFinite(value) ? colour("--nonfinite") : loader.limits.css(value);
      const corner = `M${LEFT + left} ${TOP + i * ROW}`;
      const side = right - left;
      const path = `${corner}h${side}v${ROW - 1}h-${side}z`;
      const paths = byColour.get(fill);
      if (paths) paths.push(path);
      else byColour.set(fill, [path]);
    });
  });
  return [...byColour].map(([fill, paths]) =>
    element("path", { d: paths.join(""), fill, "shape-rendering": "crispEdges" }),
  );
}

/** Neighbours end and begin at the same place, so that no background shines through. */
function halfPixel(x: number): number {
  return Math.round(2 * x) / 2;
}

function legend({ limits }: Loader, left: number): string {
  const step = LEGEND / LEVELS;
  const bar = limits.map.css.map((fill, level) =>
    element("rect", { x: left + level * step, y: 10, width: step + 0.3, height: 9, fill }),
  );
  const ticks = limits
    .ticks()
    .map(({ place, label }) => text(left + place * LEGEND, 31, label, { "text-anchor": "middle" }));
  const keys: [string, string][] = [[colour("--nonfinite"), "NaN or Inf"]];
  if (limits.zeros) keys.push([ZERO.css, "0"]);
  const named = keys.flatMap(([fill, label], i) => [
    element("rect", { x: left - 100 - i * 50, y: 10, width: 12, height: 9, fill }),
    text(left - 84 - i * 50, 19, label),
  ]);
  return [...bar, ...ticks, ...named].join("");
}
