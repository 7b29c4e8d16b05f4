import type { StatisticData } from "../api/types";
import { percent } from "../charts/numbers";
import { count, exact, figures, printable, stepRange } from "../format";
import { Tooltip } from "../frame/tooltip";
import type { Cell } from "./band";

export interface ReadoutProps {
  path: string;
  /** "3x3x16 float32", or the number of merged tensors. */
  what: string;
  cell: Cell | null;
  /** The step under the pointer, for places without a cell. */
  step: number;
  statistic: StatisticData;
  loading: boolean;
  /** The position of the pointer in the window. */
  x: number;
  y: number;
}

/** The value of the cell under the pointer, with its site and step. */
export function Readout({ path, what, cell, step, statistic, loading, x, y }: ReadoutProps) {
  const measured = cell !== null && (!Number.isNaN(cell.value) || cell.nonfinite > 0);
  const several = cell !== null && cell.first !== cell.last;
  return (
    <Tooltip
      at={{ x, y }}
      data-path={path}
      data-first={cell?.first ?? ""}
      data-last={cell?.last ?? ""}
      data-value={measured ? exact(cell.value) : ""}
      data-nonfinite={cell?.nonfinite ?? 0}
      data-statistic={statistic.name}
    >
      <div class="path">{printable(path)}</div>
      <div class="muted">
        {what && `${what} · `}
        {cell ? stepRange(cell.first, cell.last) : `step ${count(Math.floor(step))}`}
      </div>
      {measured ? (
        <div>
          {statistic.label}{" "}
          {statistic.unit === "share" ? (
            <b>{percent(cell.value)}</b>
          ) : (
            <>
              <b>{figures(cell.value)}</b> {statistic.unit}
            </>
          )}
          {several && <span class="muted"> (average step)</span>}
        </div>
      ) : (
        <div class="muted">{loading ? "Loading" : "Not measured"}</div>
      )}
      {cell !== null && cell.nonfinite > 0 && (
        <div class="readout-bad">
          {count(cell.nonfinite)} {cell.nonfinite === 1 ? "element is" : "elements are"} NaN or Inf
        </div>
      )}
    </Tooltip>
  );
}
