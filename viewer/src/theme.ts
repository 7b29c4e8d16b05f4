import { useEffect, useState } from "preact/hooks";

export type Theme = "light" | "dark";

const KEY = "gradwatch.theme";
const listeners = new Set<() => void>();
const system = () => window.matchMedia("(prefers-color-scheme: dark)");

/** The theme that the user has chosen, or else that of the notebook or of the system. */
export function theme(): Theme {
  return chosen() ?? host ?? (system().matches ? "dark" : "light");
}

/** The theme of the notebook that this page is in. */
export function setHostTheme(theme: Theme): void {
  host = theme;
  apply();
}

export function toggleTheme(): void {
  choose(theme() === "dark" ? "light" : "dark");
}

/** Applies the theme and follows changes of the system. Called once, before rendering. */
export function startTheme(): void {
  apply();
  system().addEventListener("change", apply);
}

/** The theme. The component is rendered again when it changes, since canvases must redraw. */
export function useTheme(): Theme {
  const [current, setCurrent] = useState(theme);
  useEffect(() => {
    const update = () => setCurrent(theme());
    listeners.add(update);
    return () => {
      listeners.delete(update);
    };
  }, []);
  return current;
}

/** The current value of a variable of theme.css such as "--ink". */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

let memory: Theme | null = null;
let host: Theme | null = null;

function chosen(): Theme | null {
  try {
    const value = localStorage.getItem(KEY);
    if (value === "light" || value === "dark") return value;
  } catch {
    // A report that is opened from disk may have no storage.
  }
  return memory;
}

function choose(value: Theme): void {
  memory = value;
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  apply();
}

function apply(): void {
  document.documentElement.dataset.theme = theme();
  for (const listener of listeners) listener();
}
