import { useLayoutEffect, useRef } from "preact/hooks";

/** The actions of keys. */
export type Keys = Record<string, (event: KeyboardEvent) => void>;

/**
 * Keys of the whole page, such as "j" or "Shift+ArrowRight". Keys in an input, and keys with a
 * meaning for the focused element, are left to it.
 */
export function useKeys(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  // A layout effect: keys work as soon as the page is visible.
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const target = event.target instanceof Element ? event.target : null;
      if (target?.closest("input, textarea, select, dialog, .chart-table")) return;
      // Enter and Space activate these elements.
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
