import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ColourScale, Tick } from "./colour-scale";
import { type ColourMap, LEVELS } from "./colours";
import "./legend.css";

/** The colours of a map side by side, with the values of some of them. */
function ColourBar({ map, ticks }: { map: ColourMap; ticks: readonly Tick[] }) {
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

/** A swatch with its meaning. */
export function LegendKey({
  swatch = "",
  fill,
  children,
}: {
  swatch?: "nonfinite" | "unmeasured" | "";
  fill?: string;
  children: string;
}) {
  return (
    <span class="legend-key">
      <span class={`swatch ${swatch}`} style={fill && { background: fill }} aria-hidden="true" />
      {children}
    </span>
  );
}

interface LegendProps {
  title: ComponentChildren;
  colours: ColourScale;
  ticks?: readonly Tick[];
  /** What cells without a value mean. */
  absent: string;
  /** Whether cells may contain NaN or Inf. */
  nonfinite?: boolean;
  note?: string;
  /** More keys. */
  children?: ComponentChildren;
}

/** The legend of a heatmap: the colour bar, and the looks of cells without a colour. */
export function Legend(props: LegendProps) {
  const { title, colours, ticks = colours.ticks(), absent, nonfinite = true } = props;
  return (
    <div class="legend">
      <span class="legend-title">{title}</span>
      <ColourBar map={colours.map} ticks={ticks} />
      {props.children}
      {nonfinite && <LegendKey swatch="nonfinite">NaN or Inf</LegendKey>}
      <LegendKey swatch="unmeasured">{absent}</LegendKey>
      {props.note && <span class="muted">{props.note}</span>}
    </div>
  );
}
