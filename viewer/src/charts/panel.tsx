import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { printable } from "../format";
import { DataTable } from "./data-table";
import type { Exportable } from "./export";
import { ExportMenu } from "./export-menu";
import { TableButton } from "./table-button";
import "./charts.css";

/** A chart with its title, its controls, its table and its export menu. */
export function ChartPanel({
  title,
  note = "",
  chart,
  controls,
  children,
}: {
  title: string;
  note?: string;
  chart: Exportable;
  controls?: ComponentChildren;
  children: ComponentChildren;
}) {
  const [tabular, setTabular] = useState(false);
  return (
    <section class="chart" aria-label={title}>
      <header class="chart-head">
        <h3>{printable(title)}</h3>
        {note && <span class="chart-note">{note}</span>}
        <span class="chart-tools">
          {controls}
          <TableButton of={title} shown={tabular} show={setTabular} />
          <ExportMenu chart={chart} label={title} />
        </span>
      </header>
      {children}
      {tabular && <DataTable table={chart.table()} caption={title} />}
    </section>
  );
}
