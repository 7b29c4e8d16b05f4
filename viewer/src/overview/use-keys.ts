import { useLayoutEffect, useRef } from "preact/hooks";

/** What keys do; a function answers whether it did anything. */
export type Keys = Record<string, (event: KeyboardEvent) => void>;

/**
 * Keys of the whole page, such as "j" or "Shift+ArrowRight", unless they are being typed into
 * something or mean something to what has the focus.
 */
export function useKeys(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  // At once: a key may be pressed as soon as the page can be seen.
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const target = event.target instanceof Element ? event.target : null;
      if (target?.closest("input, textarea, select, dialog, .chart-table")) return;
      // Enter and Space already mean something to these.
      const pressable = target?.closest("button, a, summary");
      if (pressable && (event.key === "Enter" || event.key === " ")) return;
      const arrow = event.key.startsWith("Arrow");
      const action = latest.current[event.shiftKey && arrow ? `Shift+${event.key}` : event.key];
      if (!action) return;
      event.preventDefault();
      action(event);
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
}
