import { useEffect, useState } from "preact/hooks";

export type Theme = "light" | "dark";

const KEY = "gradwatch.theme";
const listeners = new Set<() => void>();
const system = () => window.matchMedia("(prefers-color-scheme: dark)");

/** Light or dark: what the user has chosen here, or what the system says. */
export function theme(): Theme {
  return chosen() ?? (system().matches ? "dark" : "light");
}

export function toggleTheme(): void {
  choose(theme() === "dark" ? "light" : "dark");
}

/** Follows the system and the user; called once, before anything is drawn. */
export function startTheme(): void {
  apply();
  system().addEventListener("change", apply);
}

/** The theme; the component is rendered again when it changes (canvases must redraw). */
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

/** The colour that a variable of theme.css such as "--ink" has now, for canvases. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

let memory: Theme | null = null;

function chosen(): Theme | null {
  try {
    const value = localStorage.getItem(KEY);
    if (value === "light" || value === "dark") return value;
  } catch {
    // A report opened from disk may have no storage.
  }
  return memory;
}

function choose(value: Theme): void {
  memory = value;
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // Then the choice lasts as long as the page.
  }
  apply();
}

function apply(): void {
  document.documentElement.dataset.theme = theme();
  for (const listener of listeners) listener();
}
