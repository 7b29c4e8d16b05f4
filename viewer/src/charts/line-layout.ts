import type { Range } from "../time/range";
import type { Axis, Band, Line, LineModel } from "./model";
import { extent, type Interval, padded, type ScaleKind } from "./scale";

/** The visible part of a chart, and its scale. */
export interface View {
  /** The visible steps; null for all. */
  range: Range | null;
  scale: ScaleKind;
  /** The names of hidden lines and bands. */
  hidden: ReadonlySet<string>;
}

export function shownLines({ lines }: LineModel, { hidden }: Pick<View, "hidden">): Line[] {
  return lines.filter(({ name }) => !hidden.has(name));
}

export function shownBands({ bands = [] }: LineModel, { hidden }: Pick<View, "hidden">): Band[] {
  return bands.filter(({ name }) => !hidden.has(name));
}

/** The lines with raw values behind them. */
export function rawLines(model: LineModel, view: Pick<View, "hidden">): Required<Line>[] {
  return shownLines(model, view).filter((line): line is Required<Line> => line.raw !== undefined);
}

/** The visible positions. */
export function visiblePositions({ axis }: LineModel, { range }: View): Interval {
  if (range) return { low: range.from, high: Math.max(range.to, range.from + 1e-9) };
  const { position } = axis;
  const { low, high } = axis.limits ?? {
    low: position[0] ?? 0,
    high: position[position.length - 1] ?? 1,
  };
  if (low < high) return { low, high };
  // A single column is in the middle.
  return { low: low - 1, high: low + 1 };
}

/** The interval of the visible values, with some space. */
export function visibleValues(model: LineModel, view: View): Interval {
  const log = view.scale === "log";
  const seen = extent(seenValues(model, view), log);
  return padded(seen, view.scale);
}

function* seenValues(model: LineModel, view: View): Generator<number | undefined> {
  const { low, high } = visiblePositions(model, view);
  const { position } = model.axis;
  for (const values of drawnValues(model, view))
    for (let i = 0; i < position.length; i++) {
      const at = position[i] ?? 0;
      if (at >= low && at <= high) yield values[i];
    }
  for (const { value } of model.rules ?? []) yield value;
  yield* model.include ?? [];
}

function drawnValues(
  model: LineModel,
  view: Pick<View, "hidden">,
): ArrayLike<number | undefined>[] {
  return [
    ...shownLines(model, view).flatMap(({ values, raw }) => (raw ? [values, raw] : [values])),
    ...shownBands(model, view).flatMap(({ low, high }) => [low, high]),
  ];
}

/** Whether a logarithmic scale can show anything: some line has a positive value. */
export function canBeLogarithmic(model: LineModel): boolean {
  return drawnValues(model, { hidden: new Set() }).some((values) => {
    for (let i = 0; i < values.length; i++) {
      const value = values[i];
      if (value !== undefined && value > 0 && Number.isFinite(value)) return true;
    }
    return false;
  });
}

/** The ratio of the largest to the smallest value from which a linear scale hides the smaller ones. */
const WIDE = 1e3;

/** The scale that shows all values of a chart: logarithmic if all are positive and far apart. */
export function fittingScale(model: LineModel): ScaleKind {
  let [low, high] = [Number.POSITIVE_INFINITY, 0];
  for (const { values, raw } of model.lines)
    for (const value of Array.from(raw ?? values)) {
      if (value === undefined || !Number.isFinite(value)) continue;
      if (value <= 0) return "linear";
      [low, high] = [Math.min(low, value), Math.max(high, value)];
    }
  return high / low > WIDE ? "log" : "linear";
}

/** The values of lines that are not positive, which a logarithmic scale cannot show. */
export function belowLog(model: LineModel, view: View): { line: number; index: number }[] {
  if (view.scale !== "log") return [];
  return model.lines.flatMap(({ name, values }, line) =>
    view.hidden.has(name)
      ? []
      : Array.from(model.axis.position, (_, index) => ({ line, index })).filter(({ index }) => {
          const value = values[index];
          return value !== undefined && value <= 0;
        }),
  );
}

/** The visible sections, with the labels that fit without overlap. */
export function fittingSections(
  sections: Axis["sections"],
  place: (position: number) => number,
  width: number,
): { at: number; label: string }[] {
  const seen = sections
    .map(({ position, label }) => ({ at: place(position), label }))
    .filter(({ at }) => at >= 0 && at <= width);
  // More lines would be a grey area.
  if (seen.length > width / 12) return [];
  let end = Number.NEGATIVE_INFINITY;
  return seen.map(({ at, label }) => {
    const space = label.length * 6 + 10;
    const fits = at >= end && at + space <= width;
    if (fits) end = at + space;
    return { at, label: fits ? label : "" };
  });
}
