import { useLayoutEffect, useRef } from "preact/hooks";
import type { RankBand } from "../api/types";
import { seriesColour } from "../charts/model";
import { tickTexts } from "../charts/numbers";
import { exact, short } from "../format";
import { TimeMarks } from "../heatmap/view";
import { colour, useTheme } from "../theme";
import { useTimeGestures } from "../time/gestures";
import type { Range, TimeScale } from "../time/range";
import type { TimeRange } from "../time/use-range";
import { type NumberGroup, nameOf } from "./numbers";
import {
  bandPieces,
  linePieces,
  nearestColumn,
  type StripLayout,
  stripLayout,
} from "./strip-drawing";

export const STRIP_HEIGHT = 62;

interface StripProps {
  group: NumberGroup;
  scale: TimeScale;
  time: TimeRange;
  labelWidth: number;
  cursor: number | null;
  selecting: Range | null;
  point: (step: number | null) => void;
  select: (part: Range | null) => void;
}

/** A low chart of numbers over time, aligned with the heatmap below it. */
export function Strip(props: StripProps) {
  const { group, scale, time, labelWidth, cursor } = props;
  const theme = useTheme();
  const canvas = useRef<HTMLCanvasElement>(null);
  const layout = stripLayout(group, scale, STRIP_HEIGHT);
  const plot = useTimeGestures<HTMLDivElement>({
    scale,
    time,
    hover: (at) => props.point(at && scale.step(at.x)),
    select: props.select,
    wheelZooms: false,
  });
  useLayoutEffect(() => {
    if (canvas.current) paint(canvas.current, group, scale, layout);
  }, [group, scale.width, scale.range.from, scale.range.to, theme]);
  const texts = layout.kind === "log" ? layout.ticks.map(short) : tickTexts(layout.ticks);
  return (
    <div class="strip" style={{ height: `${STRIP_HEIGHT}px` }}>
      <div class="strip-label" style={{ width: `${labelWidth}px` }}>
        <div class="strip-names">
          {group.series.map((series, i) => {
            const column =
              cursor === null ? series.values.length - 1 : nearestColumn(series, cursor - 0.5);
            const value = series.values[column];
            return (
              <div
                key={nameOf(series)}
                class="strip-name"
                title={nameOf(series) + (series.ranks === null ? "" : BAND)}
              >
                <span class={`key series-${i + 1}`} aria-hidden="true" />
                <span class="name">{nameOf(series)}</span>
                <span
                  class="value"
                  data-number={series.path}
                  data-first={series.first[column] ?? ""}
                  data-value={value === undefined ? "" : exact(value)}
                >
                  {value === undefined ? "–" : short(value)}
                </span>
                {series.ranks !== null && group.series.length < 3 && (
                  <Spread of={series.ranks} column={column} path={series.path} />
                )}
              </div>
            );
          })}
        </div>
        <div class="strip-ticks" aria-hidden="true">
          {layout.ticks.map((tick, i) => (
            <span key={tick} style={{ top: `${layout.y(tick)}px` }}>
              {texts[i]}
            </span>
          ))}
        </div>
      </div>
      <div class="strip-plot" ref={plot} style={{ width: `${scale.width}px` }}>
        <canvas
          ref={canvas}
          role="img"
          aria-label={`${group.series.map(nameOf).join(", ")} over steps`}
          style={{ width: `${scale.width}px`, height: `${STRIP_HEIGHT}px` }}
        />
        <TimeMarks scale={scale} cursor={cursor} selecting={props.selecting} />
      </div>
    </div>
  );
}

const BAND = ". The band is from the least to the greatest of all ranks, the dots their median.";

/** The least, median and greatest of the ranks in a column. */
function Spread({
  of,
  column,
  path,
}: {
  of: RankBand<Float64Array>;
  column: number;
  path: string;
}) {
  const [low, median, high] = [of.low[column], of.median[column], of.high[column]];
  if (low === undefined || median === undefined || high === undefined) return null;
  if (Number.isNaN(median)) return null;
  return (
    <span
      class="spread"
      data-number={path}
      data-low={exact(low)}
      data-median={exact(median)}
      data-high={exact(high)}
    >
      ranks {short(low)} – {short(high)}
    </span>
  );
}

function paint(
  canvas: HTMLCanvasElement,
  group: NumberGroup,
  scale: TimeScale,
  layout: StripLayout,
): void {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(scale.width * ratio));
  canvas.height = Math.round(STRIP_HEIGHT * ratio);
  const context = canvas.getContext("2d");
  if (context === null) return;
  context.scale(ratio, ratio);
  context.strokeStyle = colour("--grid");
  context.lineWidth = 1;
  context.beginPath();
  for (const tick of layout.ticks) {
    const y = Math.round(layout.y(tick)) + 0.5;
    context.moveTo(0, y);
    context.lineTo(scale.width, y);
  }
  context.stroke();
  group.series.forEach((series, i) => {
    const { pieces, nonfinite } = linePieces(series, scale, layout);
    const ink = colour(`--${seriesColour(i)}`);
    context.strokeStyle = ink;
    context.fillStyle = ink;
    paintBand(context, bandPieces(series, scale, layout));
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.beginPath();
    for (const piece of pieces)
      piece.forEach(([x, y], at) => {
        if (at === 0) context.moveTo(x, y);
        else context.lineTo(x, y);
        if (piece.length === 1) context.rect(x - 1, y - 1, 2, 2);
      });
    context.stroke();
    context.fillStyle = colour("--nonfinite");
    for (const { x, width } of nonfinite) context.fillRect(x, 0, width, STRIP_HEIGHT);
  });
}

/** What lies between the ranks, faintly, and their median as dots, in the line's colour. */
function paintBand(
  context: CanvasRenderingContext2D,
  { area, median }: ReturnType<typeof bandPieces>,
): void {
  context.globalAlpha = 0.2;
  for (const corners of area) {
    context.beginPath();
    corners.forEach(([x, y], at) => {
      if (at === 0) context.moveTo(x, y);
      else context.lineTo(x, y);
    });
    context.fill();
  }
  context.globalAlpha = 0.8;
  context.lineWidth = 1;
  context.setLineDash([1, 3]);
  context.beginPath();
  for (const piece of median)
    piece.forEach(([x, y], at) => {
      if (at === 0) context.moveTo(x, y);
      else context.lineTo(x, y);
    });
  context.stroke();
  context.setLineDash([]);
  context.globalAlpha = 1;
}
