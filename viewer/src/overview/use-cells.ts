import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Source } from "../api/source";
import type { KindData, RunData, StatisticData, Tree } from "../api/types";
import { Loader } from "../heatmap/loader";
import type { Range } from "../time/range";

/** The least width of a column, and the greatest number of columns. */
const COLUMN_PIXELS = 3;
const MOST_COLUMNS = 320;
/** How long scrolling must have stopped before rows are requested, and the longest delay. */
const STILL_MS = 50;
const LONGEST_MS = 250;
/** Up to this number of rows, all are loaded, also those that are not visible. */
const FEW_ROWS = 120;

export interface Cells {
  loader: Loader;
  /** Grows when cells arrive. */
  arrived: number;
  error: Error | null;
  columns: number;
  /** To be called with the first visible row and the end of the visible rows. */
  seen: (begin: number, end: number) => void;
  /** The rows whose cells are loaded, in order. */
  loaded: () => number[];
  /** The visible rows whose cells are loaded. */
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

/** Loads the cells of the visible rows and keeps them up to date. */
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

  // The number changes only every hundred pixels, so that resizing a window sends few requests.
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
    // The colours of the new frame may differ.
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
      // Rows that scroll past are not requested.
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
