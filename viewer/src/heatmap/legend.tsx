import type { StatisticData } from "../api/types";
import { ZERO } from "../cells/colours";
import { Legend, LegendKey } from "../cells/legend";
import type { ValueColours } from "./colours";

interface LegendProps {
  colours: ValueColours;
  statistic: StatisticData;
  kindLabel: string;
}

/** The legend of the overview, with the unit of the statistic. */
export function HeatmapLegend({ colours, statistic, kindLabel }: LegendProps) {
  const ticks = colours.version > 0 ? colours.ticks() : [];
  const shown = ticks.map(({ place, label }, i) => ({
    place,
    label: i === 0 && colours.cut ? `≤ ${label}` : label,
  }));
  return (
    <Legend
      title={
        <>
          {kindLabel}: {statistic.label}
          {statistic.unit && <span class="muted"> ({statistic.unit})</span>}
        </>
      }
      colours={colours}
      ticks={shown}
      absent="not measured"
    >
      {colours.zeros && <LegendKey fill={ZERO.css}>exactly 0</LegendKey>}
    </Legend>
  );
}
