import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Source } from "../api/source";
import type { KindData, RunData, StatisticData, Tree } from "../api/types";
import { Loader } from "../heatmap/loader";
import type { Range } from "../time/range";

/** Pixels that a column has at least, and columns that are never exceeded. */
const COLUMN_PIXELS = 3;
const MOST_COLUMNS = 320;
/** How long rows must stand still to be asked for, and how long scrolling may put it off. */
const STILL_MS = 50;
const LONGEST_MS = 250;
/** Rows that are all loaded even if not all of them are in sight. */
const FEW_ROWS = 120;

export interface Cells {
  loader: Loader;
  /** Grows when cells have arrived. */
  arrived: number;
  error: Error | null;
  columns: number;
  /** The rows that can be seen, from the first to before the end of all rows. */
  seen: (begin: number, end: number) => void;
  /** The rows of which cells are there, in order. */
  loaded: () => number[];
  /** The rows in sight, of which cells are there. */
  inSight: () => number[];
}

interface Options {
  source: Source;
  run: RunData;
  kind: KindData;
  statistic: StatisticData;
  tree: Tree;
  rows: readonly number[];
  settled: Range | undefined;
  plotWidth: number;
  changes: number;
  reloadTree: () => void;
}

/** The cells of the rows in sight, kept up to date. */
export function useCells(options: Options): Cells {
  const { source, run, kind, statistic, tree, rows, settled, plotWidth, changes } = options;
  const [arrived, setArrived] = useState(0);
  const [error, setError] = useState<Error | null>(null);
  const reload = useRef(options.reloadTree);
  reload.current = options.reloadTree;
  const loader = useMemo(
    () =>
      new Loader(source, {
        updated: () => {
          setArrived((old) => old + 1);
          setError(null);
        },
        failed: setError,
        outdated: () => reload.current(),
      }),
    [source],
  );
  useEffect(() => () => loader.close(), [loader]);

  // Whole hundreds of pixels: a window that is being resized does not ask again all the time.
  const columns =
    plotWidth > 0
      ? Math.min(
          MOST_COLUMNS,
          Math.max(20, Math.ceil(plotWidth / 100) * Math.floor(100 / COLUMN_PIXELS)),
        )
      : 0;
  const sight = useRef({ begin: 0, end: 0 });
  const current = useRef(rows);
  current.current = rows;
  const want = useCallback(() => {
    const { begin, end } = sight.current;
    const all = current.current;
    const margin = Math.ceil((end - begin) / 2);
    const after = all.slice(end, end + margin);
    const before = all.slice(Math.max(0, begin - margin), begin);
    const rest = all.length <= FEW_ROWS ? all : [];
    loader.want(all.slice(begin, end), [...after, ...before, ...rest]);
  }, [loader]);

  const from = settled && Math.floor(settled.from);
  const to = settled && Math.ceil(settled.to);
  useEffect(() => {
    if (columns === 0) return;
    loader.show({
      run: run.id,
      kind: kind.kind,
      statistic: statistic.name,
      scale: statistic.scale,
      revision: tree.revision,
      columns,
      from,
      to,
    });
    // The new frame has other colours, or none yet.
    setArrived((old) => old + 1);
    want();
  }, [
    loader,
    run.id,
    kind.kind,
    statistic.name,
    statistic.scale,
    tree.revision,
    columns,
    from,
    to,
  ]);
  useEffect(want, [rows, want]);
  useEffect(() => {
    if (changes > 0) loader.grown();
  }, [loader, changes]);

  const pace = useRef({ timer: 0, last: 0 });
  const seen = useCallback(
    (begin: number, end: number) => {
      sight.current = { begin, end };
      // Rows that only fly past are not worth asking for.
      clearTimeout(pace.current.timer);
      const wait = performance.now() - pace.current.last > LONGEST_MS ? 0 : STILL_MS;
      pace.current.timer = window.setTimeout(() => {
        pace.current.last = performance.now();
        want();
      }, wait);
    },
    [want],
  );
  const loaded = () => rows.filter((node) => loader.settled(node));
  const inSight = () =>
    rows.slice(sight.current.begin, sight.current.end).filter((node) => loader.settled(node));
  return { loader, arrived, error, columns, seen, loaded, inSight };
}
