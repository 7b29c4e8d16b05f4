import { useMemo, useState } from "preact/hooks";
import type { Source } from "../api/source";
import type { RunData } from "../api/types";
import { DataTable } from "../charts/data-table";
import { ExportMenu } from "../charts/export-menu";
import { TableButton } from "../charts/table-button";
import { Problem } from "../frame/problem";
import type { TimePlot } from "../time/plot";
import { grouped, useNumbers } from "./numbers";
import { Strip } from "./strip";
import { exportedNumbers } from "./strip-export";

interface StripsProps extends TimePlot {
  source: Source;
  run: RunData;
  changes: number;
  columns: number;
}

/** The number of charts at first, and the number that the button adds. */
const FIRST = 2;
const MORE = 8;

/** The charts of the run's numbers above the heatmap, loss and learning rate first. */
export function Strips(props: StripsProps) {
  const { source, run, changes, columns, time } = props;
  const [most, setMost] = useState(FIRST);
  const [tabular, setTabular] = useState(false);
  const { numbers, error } = useNumbers(source, run.id, time.settled, columns, changes);
  const groups = useMemo(() => grouped(numbers ?? []), [numbers]);
  const shown = groups.slice(0, most);
  if (error) return <Problem error={error} />;
  // Charts that are loading have their height, so that the page below does not move.
  const expected = Math.min(FIRST, grouped(run.numbers.map(empty)).length);
  const chart = exportedNumbers(run, shown, time);
  const hidden = groups.length - shown.length;
  return (
    <div class="strips">
      {numbers === null &&
        Array.from({ length: expected }, (_, i) => <div key={i} class="strip strip-awaited" />)}
      {shown.map((group) => (
        <Strip key={group.series.map(({ path }) => path).join()} group={group} {...props} />
      ))}
      {groups.length > 0 && (
        <div class="strips-tools">
          {most > FIRST && (
            <button type="button" class="chart-button" onClick={() => setMost(FIRST)}>
              Fewer
            </button>
          )}
          {hidden > 0 && (
            <button type="button" class="chart-button" onClick={() => setMost(most + MORE)}>
              {Math.min(MORE, hidden)} more{hidden > MORE && ` of ${hidden}`}
            </button>
          )}
          <TableButton of="loss and other numbers" shown={tabular} show={setTabular} />
          <ExportMenu chart={chart} label="loss and other numbers" />
        </div>
      )}
      {tabular && <DataTable table={chart.table()} caption="Loss and other numbers" />}
    </div>
  );
}

function empty({ kind, path }: { kind: string; path: string }) {
  return { kind, path, first: [], last: [], width: 1, values: new Float64Array(), ranks: null };
}
