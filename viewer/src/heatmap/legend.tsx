import { useEffect, useRef } from "preact/hooks";
import type { StatisticData } from "../api/types";
import { LEVELS, ZERO } from "./colours";
import type { Limits } from "./limits";

interface LegendProps {
  limits: Limits;
  statistic: StatisticData;
  kindLabel: string;
}

/** What the colours mean: the scale with its unit, and the two that are no values. */
export function Legend({ limits, statistic, kindLabel }: LegendProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { version, map } = limits;
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    map.css.forEach((css, level) => {
      context.fillStyle = css;
      context.fillRect(level, 0, 1, 1);
    });
  }, [map]);
  const ticks = version > 0 ? limits.ticks() : [];
  return (
    <div class="legend">
      <span class="legend-title">
        {kindLabel}: {statistic.label}
        {statistic.unit && <span class="muted"> ({statistic.unit})</span>}
      </span>
      <span class="legend-scale">
        <canvas ref={canvas} width={LEVELS} height={1} role="img" aria-label="Colour scale" />
        <span class="legend-ticks">
          {ticks.map(({ place, label }, i) => (
            <span key={label} style={{ left: `${place * 100}%` }}>
              {i === 0 && limits.cut ? `≤ ${label}` : label}
            </span>
          ))}
        </span>
      </span>
      {limits.zeros && (
        <span class="legend-key">
          <span class="swatch" style={{ background: ZERO.css }} aria-hidden="true" />
          exactly 0
        </span>
      )}
      <span class="legend-key">
        <span class="swatch nonfinite" aria-hidden="true" />
        NaN or Inf
      </span>
      <span class="legend-key">
        <span class="swatch unmeasured" aria-hidden="true" />
        not measured
      </span>
    </div>
  );
}
