import { useLayoutEffect, useRef } from "preact/hooks";
import { panned, type Range, selected, type TimeScale, zoomed } from "./range";
import type { TimeRange } from "./use-range";

/** The position of the pointer in a plot. */
export interface Hover {
  x: number;
  y: number;
}

interface Options {
  scale: TimeScale;
  time: TimeRange;
  hover: (at: Hover | null) => void;
  /** Called with the current selection in steps; null when there is none. */
  select: (part: Range | null) => void;
  /** A click without a drag. */
  click?: (at: Hover) => void;
  /** Whether the wheel zooms without Ctrl. Plots that scroll need Ctrl. */
  wheelZooms: boolean;
}

const DRAG_PIXELS = 4;

/**
 * Zooms and pans with the pointer: a drag selects a part, Shift and drag or a sideways wheel moves,
 * the wheel (with Ctrl in plots that scroll) zooms, a double click shows all steps.
 */
export function useTimeGestures<E extends HTMLElement>(options: Options) {
  const element = useRef<E>(null);
  const latest = useRef(options);
  latest.current = options;

  // A layout effect: the pointer works as soon as the plot is visible.
  useLayoutEffect(() => {
    const target = element.current;
    if (target === null) return;
    let drag: { x: number; moved: boolean; pan: Range | null } | null = null;

    const place = (event: MouseEvent): Hover => {
      const box = target.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };

    const down = (event: PointerEvent) => {
      if (event.button > 1) return;
      const pan = event.shiftKey || event.button === 1 ? latest.current.time.range : null;
      drag = { x: place(event).x, moved: false, pan };
      target.setPointerCapture(event.pointerId);
      // A finger points without moving.
      latest.current.hover(place(event));
    };

    const move = (event: PointerEvent) => {
      const { scale, time, hover, select } = latest.current;
      const at = place(event);
      hover(at);
      if (drag === null) return;
      if (Math.abs(at.x - drag.x) > DRAG_PIXELS) drag.moved = true;
      if (!drag.moved) return;
      if (drag.pan !== null) {
        const steps = ((drag.x - at.x) / scale.width) * (drag.pan.to - drag.pan.from);
        time.set(panned(drag.pan, time.full, steps));
      } else select({ from: scale.step(drag.x), to: scale.step(at.x) });
    };

    const up = (event: PointerEvent) => {
      const { scale, time, select, click } = latest.current;
      const ended = drag;
      drag = null;
      select(null);
      if (event.type === "pointercancel") latest.current.hover(null);
      if (ended === null || event.type === "pointercancel") return;
      if (!ended.moved) {
        click?.(place(event));
        return;
      }
      if (ended.pan !== null) return;
      const part = selected(scale.step(ended.x), scale.step(place(event).x), time.full);
      if (part !== null) time.set(part);
    };

    // What a finger has pointed at stays until it points elsewhere.
    const leave = (event: PointerEvent) => {
      if (drag === null && event.pointerType !== "touch") latest.current.hover(null);
    };
    const elsewhere = (event: PointerEvent) => {
      if (event.pointerType === "touch" && !target.contains(event.target as Node))
        latest.current.hover(null);
    };

    const wheel = (event: WheelEvent) => {
      const { scale, time, wheelZooms } = latest.current;
      const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
      if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
        event.preventDefault();
        const span = time.range.to - time.range.from;
        time.set(panned(time.range, time.full, (sideways / scale.width) * span));
      } else if (event.ctrlKey || event.metaKey || wheelZooms) {
        event.preventDefault();
        const around = scale.step(place(event).x);
        time.set(zoomed(time.range, time.full, Math.exp(pixels(event) / 300), around));
      }
    };

    const reset = () => latest.current.time.reset();

    const abort = new AbortController();
    const { signal } = abort;
    target.addEventListener("pointerdown", down, { signal });
    target.addEventListener("pointermove", move, { signal });
    target.addEventListener("pointerup", up, { signal });
    target.addEventListener("pointercancel", up, { signal });
    target.addEventListener("pointerleave", leave, { signal });
    document.addEventListener("pointerdown", elsewhere, { signal });
    target.addEventListener("dblclick", reset, { signal });
    // `preventDefault` needs a listener that is not passive.
    target.addEventListener("wheel", wheel, { signal, passive: false });
    return () => abort.abort();
  }, []);

  return element;
}

/** The distance of a wheel event in pixels; some browsers count lines. */
function pixels(event: WheelEvent): number {
  return event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY * 16 : event.deltaY;
}
