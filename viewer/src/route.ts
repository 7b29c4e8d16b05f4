import { useEffect, useState } from "preact/hooks";

/** The part of the address after "#" names the page and contains its state. */
export type Query = Readonly<Record<string, string>>;

export type Place =
  | { page: "runs" }
  | { page: "run"; run: string }
  | { page: "site"; run: string }
  | { page: "compare" };

export type Route = Place & { query: Query };

/** The route of a hash such as "#/run/ab12?kind=gradient"; the list of runs for unknown ones. */
export function parseRoute(hash: string): Route {
  const [path = "", text = ""] = splitOnce(hash.replace(/^#\/?/, ""), "?");
  const query: Query = Object.fromEntries(new URLSearchParams(text));
  const [page, run, below] = path.split("/").map(decode);
  // The run of a report has an empty id.
  if (page === "run" && run !== undefined)
    return { page: below === "site" ? "site" : "run", run, query };
  if (page === "compare") return { page: "compare", query };
  return { page: "runs", query };
}

/** The hash of a route, for links. Empty values are left out. */
export function href(place: Place, query: Query = {}): string {
  const used = Object.entries(query).filter(([, value]) => value !== "");
  const text = new URLSearchParams(used).toString().replaceAll("%2F", "/").replaceAll("%2C", ",");
  return `#/${pathOf(place)}${text ? `?${text}` : ""}`;
}

export function navigate(place: Place, query: Query = {}): void {
  location.hash = href(place, query);
}

/**
 * Changes a part of the current page's state; "" removes a value. By default it replaces the entry
 * in the browser's history, so that "back" leaves the page instead of undoing a scroll.
 */
export function setQuery(changes: Query, push = false): void {
  const route = parseRoute(location.hash);
  const target = href(route, { ...route.query, ...changes });
  if (target === location.hash) return;
  if (push) {
    location.hash = target;
    return;
  }
  try {
    history.replaceState(history.state, "", target);
  } catch {
    // Some browsers limit the number of calls.
    location.replace(target);
    return;
  }
  // replaceState triggers no event.
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

/** The current route. The component is rendered again when it changes. */
export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const update = () => setRoute(parseRoute(location.hash));
    window.addEventListener("hashchange", update);
    update();
    return () => window.removeEventListener("hashchange", update);
  }, []);
  return route;
}

function pathOf(place: Place): string {
  switch (place.page) {
    case "runs":
      return "";
    case "run":
      return `run/${encodeURIComponent(place.run)}`;
    case "site":
      return `run/${encodeURIComponent(place.run)}/site`;
    case "compare":
      return "compare";
  }
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
