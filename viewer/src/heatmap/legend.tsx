import type { StatisticData } from "../api/types";
import { ZERO } from "../cells/colours";
import { Legend, LegendKey } from "../cells/legend";
import type { Limits } from "./limits";

interface LegendProps {
  limits: Limits;
  statistic: StatisticData;
  kindLabel: string;
}

/** The legend of the overview, with the unit of the statistic. */
export function HeatmapLegend({ limits, statistic, kindLabel }: LegendProps) {
  const ticks = limits.version > 0 ? limits.ticks() : [];
  const shown = ticks.map(({ place, label }, i) => ({
    place,
    label: i === 0 && limits.cut ? `≤ ${label}` : label,
  }));
  return (
    <Legend
      title={
        <>
          {kindLabel}: {statistic.label}
          {statistic.unit && <span class="muted"> ({statistic.unit})</span>}
        </>
      }
      colours={limits}
      ticks={shown}
      absent="not measured"
    >
      {limits.zeros && <LegendKey fill={ZERO.css}>exactly 0</LegendKey>}
    </Legend>
  );
}
