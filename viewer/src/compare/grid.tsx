import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import type { CellView } from "../cells/grid";
import { Legend } from "../cells/legend";
import { arrowMove } from "../charts/arrows";
import { positionText } from "../charts/axes";
import { SceneCanvas } from "../charts/canvas";
import { AXIS_HEIGHT } from "../charts/frame";
import { ChartPanel } from "../charts/panel";
import type { Table } from "../charts/table";
import { counted, exact, figures, printable } from "../format";
import { DistanceColours, distanceText } from "./colours";
import { type Comparison, colourLimit, distances, type Measure } from "./comparison";
import {
  cellOrLabelAt,
  comparisonGrid,
  type GridLayout,
  gridLayout,
  MOST,
  ROW,
} from "./grid-layout";
import { gridPicture, gridScene, type Pointed } from "./grid-scene";
import { counterpartText } from "./words";

interface GridProps {
  comparison: Comparison;
  /** The index of the run that is compared with the first. */
  run: number;
  measure: Measure;
  /** The label of the statistic. */
  statistic: string;
  unit: string;
  chosen: string;
  onChoose: (path: string) => void;
}

/** The distance of a run from the first run, by layer and over time. */
export function DifferenceGrid(props: GridProps) {
  const { comparison, run, measure, statistic, unit, chosen, onChoose } = props;
  const { paths, runs } = comparison.about;
  const [scrolled, setScrolled] = useState(0);
  const rows = useRef<HTMLDivElement>(null);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const far = useMemo(() => distances(comparison, run, measure), [comparison, run, measure]);
  const colours = useMemo(
    () => new DistanceColours(colourLimit(far, measure), measure),
    [far, measure],
  );
  const grid = useMemo(
    () => comparisonGrid(comparison, run, far, colours),
    [comparison, run, far, colours],
  );
  const height = Math.min(MOST, paths.length * ROW);
  const viewOf = ({ scale }: GridLayout): CellView => ({ scale, rowHeight: ROW, scrolled, height });
  const scene = useCallback(
    (width: number) => {
      const layout = gridLayout(comparison, width);
      return gridScene(comparison, grid, layout, viewOf(layout), { chosen, pointed });
    },
    [comparison, grid, scrolled, height, chosen, pointed],
  );
  const [base = "", other = ""] = [runs[0]?.name, runs[run]?.name];
  const title = measure === "ratio" ? "Ratio by layer" : "Difference by layer";
  const legend =
    measure === "ratio"
      ? `${statistic} of ${other} relative to ${base}`
      : `${statistic} of ${other} minus that of ${base}${unit && `, ${unit}`}`;
  const press = (event: KeyboardEvent) => {
    const from = { row: pointed?.row ?? 0, column: pointed?.column ?? 0 };
    if (event.key === "Enter") onChoose(paths[from.row] ?? "");
    const size = { rows: paths.length, columns: comparison.position.length };
    const to = arrowMove(event.key, from, size);
    if (to === null) return;
    event.preventDefault();
    setPointed(to);
    reveal(rows.current, to.row, height);
  };
  return (
    <ChartPanel
      title={title}
      note={`${counted(paths.length, "row")} in network order; click a row to show it in the chart above`}
      chart={{
        name: [base, other, statistic, title],
        picture: () => gridPicture(comparison, grid, `${other} and ${base}`, legend),
        table: () => gridTable(comparison, run, far, measure),
      }}
    >
      <Legend
        title={<span class="muted">{legend}</span>}
        colours={colours}
        absent="not measured in both"
        nonfinite={false}
      />
      <CellReadout comparison={comparison} run={run} far={far} measure={measure} at={pointed} />
      <div
        class="compare-rows"
        ref={rows}
        style={{ height: `${height + AXIS_HEIGHT}px` }}
        onScroll={(event) => setScrolled(event.currentTarget.scrollTop)}
      >
        <div
          class="compare-surface"
          role="slider"
          tabIndex={0}
          aria-label={`Cell of ${title}`}
          aria-valuemin={0}
          aria-valuemax={paths.length - 1}
          aria-valuenow={pointed?.row ?? 0}
          aria-valuetext={paths[pointed?.row ?? 0] ?? ""}
          onKeyDown={press}
        >
          <SceneCanvas
            height={height + AXIS_HEIGHT}
            scene={scene}
            onPoint={(at) => {
              const layout = gridLayout(comparison, at?.width ?? 0);
              setPointed(at && cellOrLabelAt(grid, layout, viewOf(layout), at));
            }}
            onPress={() => pointed && onChoose(paths[pointed.row] ?? "")}
          />
        </div>
        <div style={{ height: `${paths.length * ROW - height}px` }} />
      </div>
    </ChartPanel>
  );
}

/** Scrolls until a row is visible. */
function reveal(rows: HTMLElement | null, row: number, height: number): void {
  if (rows === null) return;
  const lowest = (row + 1) * ROW - height;
  rows.scrollTop = Math.max(lowest, Math.min(row * ROW, rows.scrollTop));
}

function CellReadout({
  comparison,
  run,
  far,
  measure,
  at,
}: Pick<GridProps, "comparison" | "run" | "measure"> & { far: Float64Array; at: Pointed | null }) {
  const { paths, runs, align } = comparison.about;
  if (at === null || at.column === null) {
    const hint = at ? printable(paths[at.row] ?? "") : "Point at a cell to read both values.";
    return <div class="chart-readout compare-readout muted">{hint}</div>;
  }
  const { row, column } = at;
  const distance = far[row * comparison.position.length + column] ?? Number.NaN;
  const [first, other] = [comparison.value(0, row, column), comparison.value(run, row, column)];
  return (
    <div
      class="chart-readout compare-readout"
      data-path={paths[row]}
      data-position={exact(comparison.position[column] ?? Number.NaN)}
      data-first={exact(first)}
      data-other={exact(other)}
      data-distance={exact(distance)}
    >
      <span class="path">{printable(paths[row] ?? "")}</span>
      <span class="muted">{counterpartText(comparison, run, row)}</span>
      <span class="muted">{positionText(comparison.position[column] ?? 0, align)}</span>
      <span>
        {runs[0]?.name} <b>{valueText(first, comparison.isBad(0, row, column))}</b>
      </span>
      <span>
        {runs[run]?.name} <b>{valueText(other, comparison.isBad(run, row, column))}</b>
      </span>
      <b>{distanceText(distance, measure)}</b>
    </div>
  );
}

function valueText(value: number, isBad: boolean): string {
  return Number.isNaN(value) && !isBad ? "not measured" : figures(value);
}

function gridTable(
  comparison: Comparison,
  run: number,
  far: Float64Array,
  measure: Measure,
): Table {
  const { paths, runs, align } = comparison.about;
  const columns = comparison.position.length;
  return {
    head: [
      "path",
      align === "step" ? "step" : "share_of_training",
      runs[0]?.name ?? "",
      runs[run]?.name ?? "",
      measure === "ratio" ? "log2_ratio" : "difference",
    ],
    rows: paths.flatMap((path, row) =>
      Array.from(comparison.position, (at, column) => [
        path,
        at,
        comparison.value(0, row, column),
        comparison.value(run, row, column),
        far[row * columns + column] ?? Number.NaN,
      ]),
    ),
  };
}
