import { useEffect, useRef } from "preact/hooks";
import { count } from "../format";
import { setQuery } from "../route";
import type { ShownRows } from "./use-rows";

/** The search for sites by parts of their paths. `/` focuses it, Escape clears it. */
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
        aria-label="Search sites by path"
        aria-describedby="search-state"
        placeholder="query kernel !bias"
        title={
          "Words that the path contains; ! excludes a word, * stands for any characters. " +
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
      <span id="search-state" class="muted" role="status">
        {shown.flat ? `${count(shown.rows.length)} of ${count(sites)} sites` : counted}
      </span>
    </span>
  );
}
