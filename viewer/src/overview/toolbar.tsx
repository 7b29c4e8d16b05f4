import type { Source } from "../api/source";
import type { KindData, RunData, StatisticData } from "../api/types";
import type { Exportable } from "../charts/export";
import { ExportMenu } from "../charts/export-menu";
import { TableButton } from "../charts/table-button";
import { count } from "../format";
import { Choice } from "../frame/choice";
import { type Query, setQuery } from "../route";
import type { TimeRange } from "../time/use-range";
import { Search } from "./search";
import type { ShownRows } from "./use-rows";

interface ToolbarProps {
  source: Source;
  run: RunData;
  kind: KindData;
  statistic: StatisticData;
  query: Query;
  shown: ShownRows;
  time: TimeRange;
  tabular: boolean;
  setTabular: (tabular: boolean) => void;
  showHelp: () => void;
  chart: Exportable;
}

/** The controls of the heatmap: kind, statistic, search, blocks, steps, table, export. */
export function Toolbar(props: ToolbarProps) {
  const { run, kind, statistic, query, shown, time, tabular } = props;
  const { from, to } = time.range;
  return (
    <div class="toolbar" role="toolbar" aria-label="Heatmap">
      <Choice
        label="Kind"
        value={kind.kind}
        options={run.kinds.map(({ kind: name, label }) => [name, label])}
        // Open blocks are node numbers of the tree of a kind: see `OpenPaths`.
        onChoose={(chosen) => setQuery({ kind: chosen, stat: "", open: "" })}
      />
      <Choice
        label="Statistic"
        value={statistic.name}
        options={kind.statistics.map(({ name, label }) => [name, label])}
        onChoose={(chosen) => setQuery({ stat: chosen })}
      />
      <Search text={query.q ?? ""} shown={shown} report={props.source.report} />
      <span class="toolbar-end">
        {time.zoomed && (
          <button type="button" onClick={time.reset} title="All steps (0 or double click)">
            steps {count(Math.floor(from))} – {count(Math.ceil(to) - 1)} ×
          </button>
        )}
        {!shown.flat && (
          <>
            <button type="button" class="chart-button" onClick={shown.openAll}>
              Open all
            </button>
            <button type="button" class="chart-button" onClick={shown.closeAll}>
              Close all
            </button>
          </>
        )}
        <TableButton of="the heatmap" shown={tabular} show={props.setTabular} />
        <ExportMenu chart={props.chart} label="the heatmap" />
        <button
          type="button"
          class="chart-button"
          aria-label="Keys"
          title="Keys (?)"
          onClick={props.showHelp}
        >
          ?
        </button>
      </span>
    </div>
  );
}
