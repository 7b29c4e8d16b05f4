import type { RefObject } from "preact";
import { heldSpans } from "../cells/spans";
import { type Band, cellRow } from "../heatmap/band";
import { isBlock } from "../heatmap/rows";
import { type Pointed, ROW_HEIGHT } from "../heatmap/view";
import { setQuery } from "../route";
import { panned, type TimeScale, zoomed } from "../time/range";
import type { TimeRange } from "../time/use-range";
import { useKeys } from "./use-keys";
import type { ShownRows } from "./use-rows";

interface Options {
  shown: ShownRows;
  time: TimeRange;
  scale: TimeScale;
  scroller: RefObject<HTMLDivElement>;
  height: number;
  labelWidth: number;
  /** The step under the cursor. */
  cursor: number | null;
  active: number;
  setActive: (place: number) => void;
  setPointed: (at: Pointed | null) => void;
  bandOf: (node: number) => Band | null;
  openPage: (node: number) => void;
  showHelp: () => void;
  searching: boolean;
}

/** The factor by which a key zooms, and the share of the range by which it moves. */
const ZOOM = 0.6;
const MOVE = 0.2;

/** The keys that move through rows and time. `keys.tsx` lists them for the user. */
export function useExplorerKeys(options: Options): void {
  const { shown, time, scale, scroller, height, cursor, active } = options;
  const { rows, forest } = shown;
  const node = rows[active];

  const go = (place: number) => {
    const to = Math.max(0, Math.min(rows.length - 1, place));
    options.setActive(to);
    const element = scroller.current;
    if (!element) return;
    const top = to * ROW_HEIGHT;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_HEIGHT > element.scrollTop + height)
      element.scrollTop = top + ROW_HEIGHT - height;
  };

  const unfold = (wanted: boolean) => {
    if (node === undefined || shown.flat) return;
    if (isBlock(forest, node) && shown.open.has(node) !== wanted) shown.toggle(node);
    else if (wanted) go(active + 1);
    else {
      const parent = rows.indexOf(forest.tree.parent[node] ?? -1);
      if (parent >= 0) go(parent);
    }
  };

  const moveCursor = (columns: number) => {
    const band = node === undefined ? null : options.bandOf(node);
    const box = scroller.current?.getBoundingClientRect();
    const cells = band && node !== undefined ? cellRow(band, node, time.full.to) : null;
    const spans = cells ? [...heldSpans(cells)] : [];
    if (!box || spans.length === 0) return;
    const last = spans.length - 1;
    const at = spans.findLastIndex(({ begin }) => cursor !== null && begin <= cursor);
    const next = at < 0 ? last : Math.max(0, Math.min(last, at + columns));
    const step = (spans[next]?.begin ?? 0) + 0.5;
    const y = active * ROW_HEIGHT - (scroller.current?.scrollTop ?? 0);
    options.setPointed({
      place: active,
      step,
      clientX: box.left + options.labelWidth + scale.x(step),
      clientY: box.top + y + ROW_HEIGHT,
    });
  };

  const span = time.range.to - time.range.from;
  const around = cursor ?? time.range.from + span / 2;
  const zoom = (factor: number) => time.set(zoomed(time.range, time.full, factor, around));
  const move = (share: number) => time.set(panned(time.range, time.full, share * span));
  const page = Math.max(1, Math.floor(height / ROW_HEIGHT) - 1);
  useKeys({
    "/": () => document.getElementById("search")?.focus(),
    "?": options.showHelp,
    j: () => go(active + 1),
    k: () => go(active - 1),
    ArrowDown: () => go(active + 1),
    ArrowUp: () => go(active - 1),
    PageDown: () => go(active + page),
    PageUp: () => go(active - page),
    Home: () => go(0),
    End: () => go(rows.length - 1),
    ArrowRight: () => unfold(true),
    ArrowLeft: () => unfold(false),
    "Shift+ArrowRight": () => moveCursor(1),
    "Shift+ArrowLeft": () => moveCursor(-1),
    Enter: () => node !== undefined && options.openPage(node),
    "+": () => zoom(ZOOM),
    "=": () => zoom(ZOOM),
    "-": () => zoom(1 / ZOOM),
    ".": () => move(MOVE),
    ",": () => move(-MOVE),
    "0": time.reset,
    Escape: () => (options.searching ? setQuery({ q: "" }) : options.setPointed(null)),
  });
}
