import type { RefObject } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type CellGrid, type CellView, rowAt, visibleRows } from "../cells/grid";
import { rect, type Scene } from "../charts/scene";
import { drawOn } from "../charts/scene-canvas";
import { useTheme } from "../theme";
import { type Hover, useTimeGestures } from "../time/gestures";
import type { TimePlot } from "../time/plot";
import { cellRow } from "./band";
import { Labels, labelsOfFound } from "./labels";
import type { Loader } from "./loader";
import type { Forest } from "./rows";
import "./heatmap.css";

export const ROW_HEIGHT = 17;

export interface Pointed {
  /** The index of the row among all rows. */
  place: number;
  step: number;
  clientX: number;
  clientY: number;
}

export interface ViewProps extends TimePlot {
  forest: Forest;
  rows: readonly number[];
  flat: boolean;
  open: ReadonlySet<number>;
  loader: Loader;
  /** Grows when cells arrive. */
  arrived: number;
  height: number;
  active: number;
  scroller: RefObject<HTMLDivElement>;
  linkOf: (node: number) => string | null;
  toggle: (node: number) => void;
  activate: (place: number) => void;
  pointed: (at: Pointed | null) => void;
  /** Called with the first visible row and the end of the visible rows. */
  seen: (begin: number, end: number) => void;
}

/** The rows in a scrolling window. Only the visible rows have elements and pixels. */
export function HeatmapView(props: ViewProps) {
  const { rows, loader, arrived, scale, height, scroller, active } = props;
  const { forest, open, flat, linkOf, toggle, activate } = props;
  const theme = useTheme();
  const [scrolled, setScrolled] = useState(0);
  const canvas = useRef<HTMLCanvasElement>(null);
  const view: CellView = { scale, rowHeight: ROW_HEIGHT, scrolled, height };
  const [begin, end] = visibleRows(rows.length, view);
  const top = begin * ROW_HEIGHT - scrolled;
  const visible = useMemo(() => rows.slice(begin, end), [rows, begin, end]);
  const { labelWidth } = props;
  const found = useMemo(
    () => (flat ? labelsOfFound(forest, rows, labelWidth) : null),
    [flat, forest, rows, labelWidth],
  );
  const named = useMemo(() => found?.slice(begin, end) ?? null, [found, begin, end]);

  const pointing = useRef({ props, view });
  pointing.current = { props, view };
  const pointer = useRef<Hover | null>(null);
  const hover = useCallback((at: Hover | null) => {
    pointer.current = at;
    const { props: now, view: shown } = pointing.current;
    const box = canvas.current?.getBoundingClientRect();
    if (at === null || !box) return now.pointed(null);
    const place = rowAt(now.rows.length, shown, at.y);
    if (place < 0) return now.pointed(null);
    now.pointed({
      place,
      step: now.scale.step(at.x),
      clientX: box.left + at.x,
      clientY: box.top + at.y,
    });
  }, []);
  const plot = useTimeGestures<HTMLDivElement>({
    scale,
    time: props.time,
    hover,
    select: props.select,
    click: (at) => {
      const place = rowAt(rows.length, view, at.y);
      if (place >= 0) props.activate(place);
    },
    wheelZooms: false,
  });

  const follow = useRef(0);
  const onScroll = () => {
    cancelAnimationFrame(follow.current);
    follow.current = requestAnimationFrame(() => {
      const at = scroller.current?.scrollTop ?? 0;
      setScrolled(at);
    });
  };

  // The rows under a resting pointer have moved.
  useEffect(() => {
    if (pointer.current) hover(pointer.current);
  }, [hover, scrolled, scale.range.from, scale.range.to]);

  const { seen } = props;
  useEffect(() => seen(begin, end), [seen, begin, end, rows]);

  // Labels and cells must move together, so cells are painted before the browser paints.
  useLayoutEffect(() => {
    if (canvas.current)
      drawOn(
        canvas.current,
        { width: scale.width, height },
        sceneOf(gridOf(rows, loader, props.time.full.to), view),
      );
  }, [
    rows,
    begin,
    end,
    top,
    height,
    scale.width,
    scale.range.from,
    scale.range.to,
    props.time.full.to,
    loader,
    arrived,
    theme,
  ]);

  return (
    <div class="heat-scroll" ref={scroller} style={{ height: `${height}px` }} onScroll={onScroll}>
      <div style={{ height: `${rows.length * ROW_HEIGHT}px` }}>
        <div class="heat-window" style={{ height: `${height}px` }}>
          <Labels
            {...{ forest, open, active, top, linkOf, toggle, activate }}
            rows={visible}
            found={named}
            offset={begin}
            rowHeight={ROW_HEIGHT}
            width={labelWidth}
          />
          <div class="heat-plot" ref={plot} style={{ width: `${scale.width}px` }}>
            <canvas
              ref={canvas}
              role="img"
              aria-label="Heatmap; the button Table shows its values"
              style={{ width: `${scale.width}px`, height: `${height}px` }}
            />
            {active >= begin && active < end && (
              <div
                class="heat-active"
                style={{
                  transform: `translateY(${top + (active - begin) * ROW_HEIGHT}px)`,
                  height: `${ROW_HEIGHT}px`,
                }}
              />
            )}
            <TimeMarks scale={scale} cursor={props.cursor} selecting={props.selecting} />
          </div>
        </div>
      </div>
    </div>
  );
}

/** The cells of some rows as a grid; `end` is that of the run. */
export function gridOf(rows: readonly number[], loader: Loader, end: number): CellGrid {
  return {
    rows: rows.length,
    row: (index) => {
      const node = rows[index] ?? -1;
      const band = loader.band(node);
      return band && cellRow(band, node, end);
    },
    colours: loader.colours,
  };
}

/** Rows that are loading show the background. */
function sceneOf(grid: CellGrid, view: CellView): Scene {
  const { scale, height } = view;
  return [
    rect({ x: 0, y: 0, width: scale.width, height }, "--panel"),
    { type: "cells", x: 0, y: 0, grid, view },
  ];
}

/** The cursor and the current selection, over a plot of the time axis. */
export function TimeMarks({
  scale,
  cursor,
  selecting,
}: Pick<TimePlot, "scale" | "cursor" | "selecting">) {
  const a = selecting && scale.x(Math.min(selecting.from, selecting.to));
  const b = selecting && scale.x(Math.max(selecting.from, selecting.to));
  return (
    <>
      {cursor !== null && (
        <div class="time-cursor" style={{ transform: `translateX(${scale.x(cursor)}px)` }} />
      )}
      {a !== null && b !== null && (
        <div class="time-selecting" style={{ left: `${a}px`, width: `${b - a}px` }} />
      )}
    </>
  );
}
