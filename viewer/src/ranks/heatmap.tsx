import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { type CellView, cellAt } from "../cells/grid";
import { Legend } from "../cells/legend";
import { stepTicks } from "../charts/scale";
import { drawOn } from "../charts/scene-canvas";
import { count, exact, figures, short, stepRange } from "../format";
import { Tooltip } from "../frame/tooltip";
import { useTheme } from "../theme";
import { type Range, timeScale } from "../time/range";
import { useSize } from "../use";
import type { RankColours } from "./colours";
import { type RankTable, rankGrid, rowName } from "./rows";
import { wordOf } from "./states";

const LABELS = 118;
const RIGHT = 14;
/** The height of all rows together, and the greatest height of a row. */
const HEIGHT = 252;
const HIGHEST = 18;
/** The least distance of two labels. */
const LABEL_ROOM = 14;

const SHARED = "it shows the value furthest from the median";

interface HeatmapProps {
  table: RankTable;
  range: Range;
  colours: RankColours;
  title: string;
}

interface Pointed {
  row: number;
  column: number;
  x: number;
  y: number;
}

/** A number of all ranks over time, one row for each rank. Ranks in findings are marked. */
export function RankHeatmap({ table, range, colours, title }: HeatmapProps) {
  const { together } = table.about;
  const theme = useTheme();
  const [measure, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const width = Math.max(0, size.width - LABELS - RIGHT);
  const scale = timeScale(range, width);
  const rowHeight = Math.min(HIGHEST, Math.max(1, HEIGHT / Math.max(1, table.rows.length)));
  const height = rowHeight * table.rows.length;
  const every = Math.ceil(LABEL_ROOM / rowHeight);
  const grid = rankGrid(table, colours);
  const view: CellView = { scale, rowHeight, scrolled: 0, height };
  useLayoutEffect(() => {
    if (canvas.current && width > 0)
      drawOn(canvas.current, { width, height }, [{ type: "cells", x: 0, y: 0, grid, view }]);
  }, [table, width, range.from, range.to, colours, theme]);
  const point = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const { clientX: x, clientY: y } = event;
    const cell = cellAt(grid, view, { x: x - box.left, y: y - box.top });
    setPointed(cell && { ...cell, x, y });
  };
  return (
    <div class="rank-heat" ref={measure}>
      <Legend
        title={title}
        colours={colours}
        absent="not recorded"
        note={together > 1 ? `${together} ranks share a row: ${SHARED}` : ""}
      />
      <div class="rank-rows">
        <div class="rank-labels" style={{ width: `${LABELS}px`, height: `${height}px` }}>
          {table.rows.map((row, i) => {
            const marked = row.severity !== null;
            // Ranks in findings and crashed ranks always have a label.
            if (i % every !== 0 && !marked && row.status !== "crashed") return null;
            const status = row.status ?? "live";
            return (
              <span
                key={row.place}
                class={`rank-label ${i % every === 0 ? "" : "between"}`}
                data-ranks={row.ranks.join(",")}
                data-severity={row.severity ?? ""}
                data-status={status}
                title={`${rowName(row.ranks)}: ${wordOf(status)}${marked ? "; named in a finding" : ""}`}
                style={{
                  top: `${i * rowHeight}px`,
                  lineHeight: `${Math.max(rowHeight, i % every === 0 ? 11 : rowHeight)}px`,
                  height: `${Math.max(rowHeight, i % every === 0 ? 11 : 2)}px`,
                }}
              >
                {i % every === 0 && rowName(row.ranks)}
                {marked && (
                  <span class={`rank-mark ${row.severity}`}>{i % every === 0 && "!"}</span>
                )}
                <span class={`status ${status}`}>
                  <span class="dot" aria-hidden="true" />
                </span>
              </span>
            );
          })}
        </div>
        {width > 0 && (
          <canvas
            ref={canvas}
            role="img"
            aria-label={`${title} of ${count(table.about.ranks.length)} ranks over steps`}
            style={{ width: `${width}px`, height: `${height}px` }}
            onMouseMove={point}
            onMouseLeave={() => setPointed(null)}
          />
        )}
      </div>
      <div class="rank-axis" style={{ marginLeft: `${LABELS}px`, width: `${width}px` }}>
        {stepTicks({ low: range.from, high: range.to }, Math.max(2, width / 90)).map((tick) => {
          const x = scale.x(tick + 0.5);
          return x < 10 || x > width - 10 ? null : (
            <span key={tick} style={{ left: `${x}px` }}>
              {count(tick)}
            </span>
          );
        })}
        <span class="rank-axis-name">step</span>
      </div>
      {pointed !== null && <RankReadout table={table} title={title} at={pointed} />}
    </div>
  );
}

function RankReadout({ table, title, at }: { table: RankTable; title: string; at: Pointed }) {
  const row = table.rows[at.row];
  if (row === undefined) return null;
  const { first, last } = table.about;
  const cell = row.place * first.length + at.column;
  const value = table.values[cell] ?? Number.NaN;
  const median = table.median[at.column] ?? Number.NaN;
  const bad = table.nonfinite.get(cell) ?? 0;
  return (
    <Tooltip
      at={at}
      data-ranks={row.ranks.join(",")}
      data-first={first[at.column]}
      data-value={exact(value)}
    >
      <div>
        <b>{rowName(row.ranks)}</b>{" "}
        <span class="muted">{stepRange(first[at.column] ?? 0, last[at.column] ?? 0)}</span>
      </div>
      {Number.isNaN(value) && bad === 0 ? (
        <div class="muted">Not recorded</div>
      ) : (
        <div>
          {title} <b>{figures(value)}</b>
        </div>
      )}
      <div class="muted">median of all ranks {short(median)}</div>
      {bad > 0 && <div class="readout-bad">{count(bad)} NaN or Inf</div>}
    </Tooltip>
  );
}
