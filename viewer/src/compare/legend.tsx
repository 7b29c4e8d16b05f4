import { useCallback } from "preact/hooks";
import { Canvas, type Draw } from "../charts/canvas";
import { colour } from "../theme";
import type { Measure } from "./comparison";
import { legendTicks, shade } from "./shades";

const HEIGHT = 28;
const SIDE = 22;

/** What the colours of the heatmap of differences mean. */
export function DifferenceLegend({
  limit,
  measure,
  label,
}: {
  limit: number;
  measure: Measure;
  label: string;
}) {
  const draw = useCallback<Draw>(
    (ctx, width) => {
      const inner = width - 2 * SIDE;
      for (let x = 0; x < inner; x++) {
        ctx.fillStyle = shade(((x / inner) * 2 - 1) * limit, limit) ?? "transparent";
        ctx.fillRect(SIDE + x, 0, 1.5, 10);
      }
      ctx.font = `11px ${colour("--sans")}`;
      ctx.fillStyle = colour("--muted");
      ctx.textAlign = "center";
      ctx.textBaseline = "top";
      for (const { at, text } of legendTicks(limit, measure))
        ctx.fillText(text, SIDE + ((at / limit + 1) / 2) * inner, 13);
    },
    [limit, measure],
  );
  return (
    <div class="compare-legend">
      <span class="muted">{label}</span>
      <Canvas height={HEIGHT} draw={draw} />
      <span class="legend-key">
        <span class="swatch unmeasured" aria-hidden="true" />
        not measured in both
      </span>
    </div>
  );
}
