import { useCallback, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Finding, KindData, StatisticData, Tree } from "../api/types";
import { counted } from "../format";
import { Problem } from "../frame/problem";
import { cellAt } from "../heatmap/band";
import { labelWidth as widthOfLabels } from "../heatmap/labels";
import { HeatmapLegend } from "../heatmap/legend";
import { Readout } from "../heatmap/readout";
import { HeatmapView, type Pointed, ROW_HEIGHT } from "../heatmap/view";
import type { RunProps } from "../page";
import { href } from "../route";
import { useWindowHeight } from "../use";
import { exportedHeatmap } from "./heatmap-export";
import { HeatmapTable } from "./heatmap-table";
import { KeysDialog } from "./keys";
import { Strips } from "./strips";
import { TimeAxis } from "./time-axis";
import { Toolbar } from "./toolbar";
import { useCells } from "./use-cells";
import { useExplorerKeys } from "./use-explorer-keys";
import { useRowPlace } from "./use-row-place";
import { type OpenPaths, useRows } from "./use-rows";
import { useTimePlot } from "./use-time-plot";
import "./explorer.css";

interface ExplorerProps extends RunProps {
  kind: KindData;
  statistic: StatisticData;
  tree: Tree;
  openPaths: OpenPaths;
  reloadTree: () => void;
  chooseFinding: (finding: Finding) => void;
}

/** Charts of numbers, the axis of steps and the heatmap, with a common range and cursor. */
export function Explorer(props: ExplorerProps) {
  const { source, run, kind, statistic, tree, query, changes } = props;
  const shown = useRows(tree, query, props.openPaths);
  const { forest, rows, flat } = shown;
  const wanted = useMemo(() => widthOfLabels(forest, rows, flat), [forest, rows, flat]);
  const { measure, plot } = useTimePlot(run, query, wanted, flat ? "paths" : "names");
  const { time, scale, selecting, labelWidth } = plot;
  const plotWidth = scale.width;
  const cells = useCells({ ...props, rows, settled: time.settled, plotWidth, changes });
  const { loader } = cells;

  const [chosen, setChosen] = useState<{ node: number; rows: readonly number[] } | null>(null);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const [tabular, setTabular] = useState(false);
  const [help, setHelp] = useState(false);
  const windowHeight = useWindowHeight();
  const scroller = useRef<HTMLDivElement>(null);
  const height = Math.min(rows.length * ROW_HEIGHT, Math.max(240, windowHeight - 150));
  // The active row stays active when blocks open above it. A search starts at its first result.
  const active = useMemo(() => {
    if (chosen === null || (flat && chosen.rows !== rows)) return 0;
    return Math.max(0, rows.indexOf(chosen.node));
  }, [chosen, rows, flat]);
  const setActive = useCallback(
    (place: number) => setChosen({ node: rows[place] ?? -1, rows }),
    [rows],
  );
  const cursor = pointed?.step ?? plot.cursor;

  const linkOf = useCallback(
    (node: number) => {
      const path = forest.path[node] ?? "";
      if (!source.hasSeries(kind.kind, path)) return null;
      const { rank = "" } = query;
      return href({ page: "site", run: run.id }, { kind: kind.kind, path, rank });
    },
    [source, forest, kind.kind, run.id, query.rank],
  );

  const openPage = (node: number) => {
    const link = linkOf(node);
    if (link !== null) location.hash = link;
  };
  useExplorerKeys({
    ...{ shown, time, scale, scroller, height, labelWidth, cursor, active, openPage },
    setActive,
    setPointed,
    bandOf: (node) => loader.band(node),
    showHelp: () => setHelp(true),
    searching: (query.q ?? "") !== "",
  });
  const keepPlace = useRowPlace(scroller, rows, query, plotWidth > 0);
  const { seen: load } = cells;
  const place = useRef(keepPlace);
  place.current = keepPlace;
  const seen = useCallback(
    (begin: number, end: number) => {
      load(begin, end);
      place.current(begin);
    },
    [load],
  );
  // The row under the pointer may be gone. A later effect would undo the effect of a key.
  useLayoutEffect(() => setPointed(null), [rows, kind.kind, statistic.name]);

  const pointedNode = pointed === null ? undefined : rows[pointed.place];
  const pointedBand = pointedNode === undefined ? null : loader.band(pointedNode);
  const shared = { ...plot, cursor };
  const { range, full } = time;
  const exported = { run, kind, statistic, forest, loader, range, end: full.to };
  return (
    <div class="explorer" ref={measure}>
      <Toolbar
        {...{ source, run, kind, statistic, query, shown, time, tabular, setTabular }}
        showHelp={() => setHelp(true)}
        chart={exportedHeatmap(exported, cells.loaded)}
      />
      <HeatmapLegend colours={loader.colours} statistic={statistic} kindLabel={kind.label} />
      {cells.error && <Problem error={cells.error} />}
      {plotWidth > 0 && (
        <>
          <Strips {...shared} source={source} run={run} changes={changes} columns={cells.columns} />
          <TimeAxis {...shared} run={run} choose={props.chooseFinding} />
          <HeatmapView
            {...shared}
            {...{ forest, rows, flat, loader, height, active, scroller, linkOf, seen }}
            open={shown.open}
            arrived={cells.arrived}
            toggle={shown.toggle}
            activate={setActive}
            pointed={setPointed}
          />
        </>
      )}
      {rows.length === 0 && (
        <p class="empty">
          No path contains {(query.q ?? "").includes(" ") ? "all of these words" : "this"}. A word
          with <code>!</code> excludes what contains it; <code>*</code> stands for any characters.
        </p>
      )}
      {pointed !== null && pointedNode !== undefined && selecting === null && (
        <Readout
          path={forest.path[pointedNode] ?? ""}
          what={
            forest.tree.site[pointedNode]
              ? (forest.tree.shape[pointedNode] ?? "")
              : `${counted(forest.tree.count[pointedNode] ?? 0, "tensor")} merged`
          }
          cell={pointedBand && cellAt(pointedBand, pointedNode, pointed.step, time.full.to)}
          step={pointed.step}
          statistic={statistic}
          loading={!loader.settled(pointedNode)}
          x={pointed.clientX}
          y={pointed.clientY}
        />
      )}
      {tabular && <HeatmapTable what={exported} rows={cells.inSight()} />}
      <KeysDialog open={help} close={() => setHelp(false)} />
    </div>
  );
}
