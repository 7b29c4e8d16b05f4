import { useCallback, useEffect, useMemo, useRef } from "preact/hooks";
import type { Tree } from "../api/types";
import {
  allBlocks,
  decodeOpen,
  encodeOpen,
  type Forest,
  forest as forestOf,
  shownRows,
} from "../heatmap/rows";
import { foundSites } from "../heatmap/search";
import { type Query, setQuery } from "../route";
import { useDebounced } from "../use";

export interface ShownRows {
  forest: Forest;
  /** The nodes from top to bottom. */
  rows: readonly number[];
  open: ReadonlySet<number>;
  /** Whether the rows are search results: sites with full paths. */
  flat: boolean;
  toggle: (node: number) => void;
  openAll: () => void;
  closeAll: () => void;
}

/** The paths of the open blocks, to open the same blocks in the tree of another kind. */
export type OpenPaths = { current: ReadonlySet<string> | null };

const TYPING_MS = 180;

/** The shown rows of a tree: its open blocks, or the results of the search in the address. */
export function useRows(tree: Tree, query: Query, carried: OpenPaths): ShownRows {
  const forest = useMemo(() => forestOf(tree), [tree]);
  const text = query.open ?? "";
  const open = useMemo(() => decodeOpen(forest, text), [forest, text]);
  const typed = (query.q ?? "").trim();
  const settled = useDebounced(typed, TYPING_MS);
  const searched = typed === "" ? "" : settled;
  const found = useMemo(
    () => (searched === "" ? null : foundSites(tree, searched)),
    [tree, searched],
  );
  const rows = useMemo(() => found ?? shownRows(forest, open), [forest, open, found]);

  const latest = useRef({ forest, open });
  latest.current = { forest, open };
  const write = useCallback(
    (wanted: ReadonlySet<number>) => {
      const { path } = latest.current.forest;
      carried.current = new Set([...wanted].map((node) => path[node] ?? ""));
      setQuery({ open: encodeOpen(latest.current.forest, wanted) });
    },
    [carried],
  );
  useEffect(() => {
    // A link or a reload may have opened blocks.
    if (text !== "") carried.current = new Set([...open].map((node) => forest.path[node] ?? ""));
  }, [carried, forest, open, text]);
  useEffect(() => {
    const paths = carried.current;
    if (text !== "" || paths === null) return;
    const wanted = [...allBlocks(forest)].filter((node) => paths.has(forest.path[node] ?? ""));
    setQuery({ open: encodeOpen(forest, new Set(wanted)) });
  }, [forest]);
  const toggle = useCallback(
    (node: number) => {
      const wanted = new Set(latest.current.open);
      if (!wanted.delete(node)) wanted.add(node);
      write(wanted);
    },
    [write],
  );
  return {
    forest,
    rows,
    open,
    flat: found !== null,
    toggle,
    openAll: () => write(allBlocks(forest)),
    closeAll: () => write(new Set()),
  };
}
