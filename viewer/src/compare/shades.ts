import { short } from "../format";
import { divergingMap, LEVELS } from "../heatmap/colours";
import type { Measure } from "./comparison";

/** The colour of a distance; null where there is none to show. */
export function shade(distance: number, limit: number): string | null {
  if (Number.isNaN(distance)) return null;
  const place = Math.max(-1, Math.min(1, distance / limit));
  return divergingMap().css[Math.round(((place + 1) / 2) * (LEVELS - 1))] ?? null;
}

/** Distances to write at the legend, with their texts. */
export function legendTicks(limit: number, measure: Measure): { at: number; text: string }[] {
  return [-1, -0.5, 0, 0.5, 1].map((part) => {
    const at = part * limit;
    return { at, text: distanceText(at, measure) };
  });
}

/** "×4", "×1/4" or "+0.12". */
export function distanceText(distance: number, measure: Measure): string {
  if (Number.isNaN(distance)) return "–";
  if (measure === "difference") return `${distance > 0 ? "+" : ""}${short(distance)}`;
  if (!Number.isFinite(distance)) return distance > 0 ? "×∞" : "×0";
  const factor = 2 ** Math.abs(distance);
  return distance < 0 && factor !== 1 ? `×1/${factorText(factor)}` : `×${factorText(factor)}`;
}

function factorText(factor: number): string {
  return factor < 1000 ? String(Number(factor.toPrecision(3))) : short(factor);
}
