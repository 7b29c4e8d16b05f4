import { useEffect, useRef } from "preact/hooks";
import { count } from "../format";
import { setQuery } from "../route";
import type { ShownRows } from "./use-rows";

/** The search for sites with selectors of the library. `/` focuses it, Escape clears it. */
export function Search({
  text,
  shown,
  report,
}: {
  text: string;
  shown: ShownRows;
  report: boolean;
}) {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    // The address was changed by a link or the browser's history, not by typing.
    if (box.current && box.current !== document.activeElement) box.current.value = text;
  }, [text]);
  const { tree, roots } = shown.forest;
  const sites = tree.site.filter(Boolean).length;
  // A report may lack some sites, which the counts of its blocks include.
  const all = roots.reduce((sum, root) => sum + (tree.count[root] ?? 0), 0);
  const counted =
    report && all > sites
      ? `${count(sites)} of ${count(all)} sites are in this report`
      : `${count(sites)} ${sites === 1 ? "site" : "sites"}`;
  const clear = () => {
    setQuery({ q: "" });
    if (box.current) box.current.value = "";
    box.current?.blur();
  };
  return (
    <span class="search">
      <input
        ref={box}
        id="search"
        type="search"
        aria-label="Search sites by pattern"
        aria-describedby="search-state"
        placeholder="conv*/kernel   !bias"
        title={
          "A selector: neighbouring parts of the path, * and ? inside of a part, ! to exclude. " +
          "Press / to focus, Esc to clear."
        }
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => setQuery({ q: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key === "Escape") clear();
          else if (event.key === "Enter" || event.key === "ArrowDown") {
            event.preventDefault();
            box.current?.blur();
          } else return;
          event.stopPropagation();
        }}
      />
      <span id="search-state" class={shown.searchError ? "search-error" : "muted"} role="status">
        {shown.searchError
          ? shown.searchError.message
          : shown.flat
            ? `${count(shown.rows.length)} of ${count(sites)} sites`
            : counted}
      </span>
    </span>
  );
}
