import { ColourScale, type Tick } from "../cells/colour-scale";
import { divergingMap } from "../cells/colours";
import { short } from "../format";
import type { Measure } from "./comparison";

/** The colours of distances from -limit to limit. Greater distances have the outermost colours. */
export class DistanceColours extends ColourScale {
  constructor(
    private readonly limit: number,
    private readonly measure: Measure,
  ) {
    super();
  }

  override get map() {
    return divergingMap();
  }

  override place(distance: number): number {
    return (distance / this.limit + 1) / 2;
  }

  override ticks(): Tick[] {
    return [-1, -0.5, 0, 0.5, 1].map((part) => ({
      place: (part + 1) / 2,
      label: distanceText(part * this.limit, this.measure),
    }));
  }
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
