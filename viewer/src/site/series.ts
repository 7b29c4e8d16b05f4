import { decodeDoubles } from "../api/doubles";
import { joinedSteps, joinedValues, keptColumns } from "../api/growth";
import type { SeriesData } from "../api/types";

/** The decoded numbers of a site over time. */
export interface Series {
  about: Omit<SeriesData, "statistics" | "zeros" | "nonfinite">;
  statistics: Readonly<Record<string, Float64Array>>;
  zeros: Float64Array;
  nonfinite: Float64Array;
}

export function decodeSeries(data: SeriesData): Series {
  const { statistics, zeros, nonfinite, ...about } = data;
  return {
    about,
    statistics: mapped(statistics, decodeDoubles),
    zeros: decodeDoubles(zeros),
    nonfinite: decodeDoubles(nonfinite),
  };
}

/** A series with the columns of a later answer, which replace or follow the old ones. */
export function mergeSeries(old: Series, changed: Series): Series {
  if (changed.about.first.length === 0)
    return { ...old, about: { ...changed.about, ...columnsOf(old) } };
  const kept = keptColumns(old.about.first, changed.about.first);
  const joined = (known: Float64Array | undefined, added: Float64Array) =>
    joinedValues(known ?? new Float64Array(), kept, added);
  return {
    about: {
      ...changed.about,
      complete: true,
      first: joinedSteps(old.about.first, kept, changed.about.first),
      last: joinedSteps(old.about.last, kept, changed.about.last),
    },
    statistics: mapped(changed.statistics, (values, name) => joined(old.statistics[name], values)),
    zeros: joined(old.zeros, changed.zeros),
    nonfinite: joined(old.nonfinite, changed.nonfinite),
  };
}

function columnsOf({ about }: Series): Pick<SeriesData, "first" | "last" | "elements"> {
  return { first: about.first, last: about.last, elements: about.elements };
}

function mapped<A, B>(
  record: Readonly<Record<string, A>>,
  change: (value: A, name: string) => B,
): Record<string, B> {
  return Object.fromEntries(
    Object.entries(record).map(([name, value]) => [name, change(value, name)]),
  );
}
