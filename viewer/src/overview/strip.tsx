import { useLayoutEffect, useRef } from "preact/hooks";
import type { RankBand } from "../api/types";
import { drawOn } from "../charts/scene-canvas";
import { exact, short } from "../format";
import { TimeMarks } from "../heatmap/view";
import { useTheme } from "../theme";
import { useTimeGestures } from "../time/gestures";
import type { TimePlot } from "../time/plot";
import { type NumberGroup, nameOf } from "./numbers";
import { nearestColumn, stripLayout, tickLabels } from "./strip-layout";
import { stripScene } from "./strip-scene";

export const STRIP_HEIGHT = 62;

interface StripProps extends TimePlot {
  group: NumberGroup;
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
    if (canvas.current)
      drawOn(
        canvas.current,
        { width: scale.width, height: STRIP_HEIGHT },
        stripScene(group, scale, layout, { height: STRIP_HEIGHT, end: time.full.to }),
      );
  }, [group, scale.width, scale.range.from, scale.range.to, time.full.to, theme]);
  const texts = tickLabels(layout);
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

const BAND = ". The band shows the range of all ranks, the dotted line their median.";

/** The least and the greatest value of all ranks in a column. */
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
