import type { StatisticData } from "../api/types";
import { ZERO } from "../cells/colours";
import { ColourBar, LegendKey, NonfiniteKey } from "../cells/legend";
import type { Limits } from "./limits";

interface LegendProps {
  limits: Limits;
  statistic: StatisticData;
  kindLabel: string;
}

/** What the colours mean: the scale with its unit, and the two that are no values. */
export function Legend({ limits, statistic, kindLabel }: LegendProps) {
  const ticks = limits.version > 0 ? limits.ticks() : [];
  const shown = ticks.map(({ place, label }, i) => ({
    place,
    label: i === 0 && limits.cut ? `≤ ${label}` : label,
  }));
  return (
    <div class="legend">
      <span class="legend-title">
        {kindLabel}: {statistic.label}
        {statistic.unit && <span class="muted"> ({statistic.unit})</span>}
      </span>
      <ColourBar map={limits.map} ticks={shown} />
      {limits.zeros && <LegendKey fill={ZERO.css}>exactly 0</LegendKey>}
      <NonfiniteKey />
      <LegendKey swatch="unmeasured">not measured</LegendKey>
    </div>
  );
}
