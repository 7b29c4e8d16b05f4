import type { StatisticData } from "../api/types";
import { ZERO } from "./colours";
import { ColourScale, WithoutValue } from "./legend-parts";
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
      <ColourScale map={limits.map} ticks={shown} />
      {limits.zeros && (
        <span class="legend-key">
          <span class="swatch" style={{ background: ZERO.css }} aria-hidden="true" />
          exactly 0
        </span>
      )}
      <WithoutValue absent="not measured" />
    </div>
  );
}
