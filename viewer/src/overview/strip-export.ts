import type { RunData } from "../api/types";
import type { Exportable } from "../charts/export";
import type { TimeRange } from "../time/use-range";
import type { NumberGroup } from "./numbers";
import { stripsPicture } from "./strip-scene";

/** The columns of the range of all ranks. */
const BAND = ["low", "median", "high"] as const;

/** The export of the charts of numbers. */
export function exportedNumbers(
  run: RunData,
  groups: NumberGroup[],
  { range, full }: Pick<TimeRange, "range" | "full">,
): Exportable {
  const banded = groups.some(({ series }) => series.some(({ ranks }) => ranks !== null));
  return {
    name: [run.name, "numbers"],
    picture: () => stripsPicture(run.name, groups, range, full.to),
    table: () => ({
      head: ["kind", "path", "first_step", "last_step", "value", ...(banded ? BAND : [])],
      rows: groups.flatMap((group) =>
        group.series.flatMap((series) =>
          Array.from(series.values, (value, i) => [
            series.kind,
            series.path,
            series.first[i] ?? "",
            series.last[i] ?? "",
            value,
            ...(banded ? BAND.map((name) => series.ranks?.[name][i] ?? "") : []),
          ]),
        ),
      ),
    }),
  };
}
