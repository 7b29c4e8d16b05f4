import { useRef } from "preact/hooks";
import { decodeDoubles } from "../api/doubles";
import { joinedSteps, joinedValues, keptColumns } from "../api/growth";
import type { Source } from "../api/source";
import type { Doubles, NumbersData, RankBand } from "../api/types";
import type { Range } from "../time/range";
import { useAnswer } from "../use";

/** A loss, a learning rate or another number over time. Columns of several steps are means. */
export interface NumberSeries {
  kind: string;
  path: string;
  first: number[];
  last: number[];
  width: number;
  values: Float64Array;
  /** The range of all ranks; null if it is not known. */
  ranks: RankBand<Float64Array> | null;
}

/** The lines of one chart. */
export interface NumberGroup {
  title: string;
  series: NumberSeries[];
}

/** The most lines in one chart. */
const TOGETHER = 4;

/**
 * The numbers of a run in a range. When `changes` grows, only new columns are requested.
 */
export function useNumbers(
  source: Source,
  run: string,
  settled: Range | undefined,
  columns: number,
  changes: number,
): { numbers: NumberSeries[] | null; error: Error | null } {
  const from = settled && Math.floor(settled.from);
  const to = settled && Math.ceil(settled.to);
  const of = `${run} ${from} ${to} ${columns}`;
  const held = useRef<{ source: Source; of: string; numbers: NumberSeries[] } | null>(null);
  const { data, error } = useAnswer(
    async (signal) => {
      const known = held.current;
      const old = known?.of === of && known.source === source ? known.numbers : [];
      const since = Math.min(...old.map(({ last }) => last.at(-1) ?? 0));
      const window = { columns, from, to };
      const part = old.length > 0 ? { ...window, since, width: old[0]?.width } : window;
      const numbers = merged(old, await source.numbers(run, part, signal));
      held.current = { source, of, numbers };
      return numbers;
    },
    [source, of],
    run,
    changes,
  );
  return { numbers: data, error };
}

/** Groups losses together, and then each of the other numbers. */
export function grouped(numbers: readonly NumberSeries[]): NumberGroup[] {
  const losses = numbers.filter(({ kind }) => kind === "loss");
  const others = numbers.filter(({ kind }) => kind !== "loss");
  const groups: NumberGroup[] = [];
  for (let i = 0; i < losses.length; i += TOGETHER)
    groups.push({ title: "loss", series: losses.slice(i, i + TOGETHER) });
  // Learning rates come first.
  const rank = ({ path }: NumberSeries) => (path.includes("learning_rate") ? 0 : 1);
  for (const series of [...others].sort((a, b) => rank(a) - rank(b)))
    groups.push({ title: nameOf(series), series: [series] });
  return groups;
}

export function nameOf({ kind, path }: { kind: string; path: string }): string {
  const known = kind === "loss" || kind === "scalar" ? path : `${kind} ${path}`;
  return known.replaceAll("_", " ");
}

function merged(old: readonly NumberSeries[], data: NumbersData): NumberSeries[] {
  return data.numbers.map((one) => {
    const { kind, path, first, last, width } = one;
    const values = decodeDoubles(one.values);
    const fresh = { kind, path, first, last, width, values, ranks: decodedBand(one.ranks) };
    const before = old.find((series) => series.kind === kind && series.path === path);
    if (before === undefined || one.complete) return fresh;
    if (first.length === 0) return before;
    const kept = keptColumns(before.first, first);
    const { ranks } = before;
    const joined = (known: Float64Array, added: Float64Array) => joinedValues(known, kept, added);
    return {
      ...fresh,
      first: joinedSteps(before.first, kept, first),
      last: joinedSteps(before.last, kept, last),
      values: joined(before.values, fresh.values),
      ranks: ranks &&
        fresh.ranks && {
          low: joined(ranks.low, fresh.ranks.low),
          median: joined(ranks.median, fresh.ranks.median),
          high: joined(ranks.high, fresh.ranks.high),
        },
    };
  });
}

function decodedBand(band: RankBand<Doubles> | null): RankBand<Float64Array> | null {
  return (
    band && {
      low: decodeDoubles(band.low),
      median: decodeDoubles(band.median),
      high: decodeDoubles(band.high),
    }
  );
}
