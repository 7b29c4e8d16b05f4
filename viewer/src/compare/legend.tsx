import { ColourBar, LegendKey } from "../cells/legend";
import type { DistanceColours } from "./colours";

/** The colours of the heatmap of differences. */
export function DifferenceLegend({ colours, label }: { colours: DistanceColours; label: string }) {
  return (
    <div class="legend">
      <span class="legend-title muted">{label}</span>
      <ColourBar map={colours.map} ticks={colours.ticks()} />
      <LegendKey swatch="unmeasured">not measured in both</LegendKey>
    </div>
  );
}
