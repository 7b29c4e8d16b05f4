import { useLayoutEffect, useRef } from "preact/hooks";
import { type ColourMap, LEVELS } from "./colours";

export interface Tick {
  /** From 0 at the left to 1 at the right. */
  place: number;
  label: string;
}

/** The colours of a map side by side, and the values that some of them stand for. */
export function ColourScale({ map, ticks }: { map: ColourMap; ticks: readonly Tick[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    map.css.forEach((css, level) => {
      context.fillStyle = css;
      context.fillRect(level, 0, 1, 1);
    });
  }, [map]);
  return (
    <span class="legend-scale">
      <canvas ref={canvas} width={LEVELS} height={1} role="img" aria-label="Colour scale" />
      <span class="legend-ticks">
        {ticks.map(({ place, label }) => (
          <span key={label} style={{ left: `${place * 100}%` }}>
            {label}
          </span>
        ))}
      </span>
    </span>
  );
}

/** How cells look that have no value, and why. */
export function WithoutValue({ absent }: { absent: string }) {
  return (
    <>
      <span class="legend-key">
        <span class="swatch nonfinite" aria-hidden="true" />
        NaN or Inf
      </span>
      <span class="legend-key">
        <span class="swatch unmeasured" aria-hidden="true" />
        {absent}
      </span>
    </>
  );
}
