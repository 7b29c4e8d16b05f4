import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ROW_HEIGHT } from "../heatmap/view";
import { type Query, setQuery } from "../route";

/** How long scrolling must have stopped before the address changes. */
const STILL_MS = 300;

/**
 * Keeps the topmost visible row in the address, and scrolls to it when the page opens: links and
 * the browser's history restore the position.
 *
 * @returns a function to call with the index of the topmost row when it has changed.
 */
export function useRowPlace(
  scroller: RefObject<HTMLDivElement>,
  rows: readonly number[],
  query: Query,
  ready: boolean,
): (top: number) => void {
  const arrived = useRef(false);
  const timer = useRef(0);
  useEffect(() => {
    if (!ready || arrived.current || !scroller.current) return;
    arrived.current = true;
    const place = rows.indexOf(Number.parseInt(query.at ?? "", 36));
    if (place > 0) scroller.current.scrollTop = place * ROW_HEIGHT;
  });
  useEffect(() => () => clearTimeout(timer.current), []);
  return (top) => {
    if (!arrived.current) return;
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      const node = top > 0 ? rows[top] : undefined;
      setQuery({ at: node === undefined ? "" : node.toString(36) });
    }, STILL_MS);
  };
}
