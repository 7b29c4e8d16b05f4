import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ROW_HEIGHT } from "../heatmap/view";
import { type Query, setQuery } from "../route";

/** How long scrolling must have ended to go into the address. */
const STILL_MS = 300;

/**
 * Keeps in the address which row is at the top of the window, and goes there when the page is
 * opened: a link shows what its sender saw, and "back" leads to where one was.
 *
 * @returns what to call with the place of the topmost row when it has changed.
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
