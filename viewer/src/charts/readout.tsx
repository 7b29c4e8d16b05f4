import { exact, figures, short } from "../format";
import type { LineModel } from "./model";

/** The legend of a chart, with the values under the pointer, or else the last values. */
export function Readout({
  model,
  cursor,
  hidden,
  onToggle,
}: {
  model: LineModel;
  cursor: number | null;
  hidden: ReadonlySet<string>;
  onToggle: (name: string) => void;
}) {
  const { axis, lines, bands = [], marks = [], format = figures } = model;
  const index = Math.min(cursor ?? axis.position.length - 1, axis.position.length - 1);
  const mark = marks.find((one) => one.index === index);
  const where = index < 0 ? "" : axis.name(index);
  const text = (value: number | undefined, own: (value: number) => string) =>
    valueText(value, mark !== undefined, own);
  const key = (name: string) => ({
    key: name,
    type: "button" as const,
    class: "chart-key",
    "aria-pressed": !hidden.has(name),
    title: `Show or hide ${name}`,
    "data-name": name,
    onClick: () => onToggle(name),
  });
  return (
    <div class="chart-readout" data-index={index} data-position={axis.position[index] ?? ""}>
      <span class="chart-where">{cursor === null && where ? `last: ${where}` : where}</span>
      {lines.map(({ name, values, colour, raw }) => {
        const at = (own: ArrayLike<number | undefined>) =>
          cursor === null ? lastValue(own) : valueAt(own, index);
        const value = at(values);
        const before = raw && at(raw);
        return (
          <button {...key(name)} data-value={value === undefined ? "" : exact(value)}>
            <i style={{ background: `var(--${colour})` }} />
            <span>{name}</span>
            <b>{text(value, format)}</b>
            {before !== undefined && (
              <small data-raw={exact(before)} title="Before smoothing">
                {format(before)}
              </small>
            )}
          </button>
        );
      })}
      {bands.map(({ name, low, high, colour, opacity }) => (
        <button
          {...key(name)}
          data-low={exact(low[index] ?? Number.NaN)}
          data-high={exact(high[index] ?? Number.NaN)}
        >
          <i class="band" style={{ background: `var(--${colour})`, opacity }} />
          {name}
          <b>
            {text(low[index], short)} … {text(high[index], short)}
          </b>
        </button>
      ))}
      {mark && <span class="chart-mark">× {mark.text}</span>}
    </div>
  );
}

/** A value that is NaN where it was measured is written so. */
function valueText(value: number | undefined, marked: boolean, format: (value: number) => string) {
  if (value === undefined) return "–";
  if (Number.isNaN(value)) return marked ? "nan" : "–";
  return format(value);
}

/** The value at a column; between two points of a line, the value of the first. */
function valueAt(values: ArrayLike<number | undefined>, index: number): number | undefined {
  let after = index;
  while (after < values.length && values[after] === undefined) after++;
  return after < values.length ? lastValue(values, index) : undefined;
}

function lastValue(values: ArrayLike<number | undefined>, upTo = values.length - 1) {
  for (let i = upTo; i >= 0; i--) if (values[i] !== undefined) return values[i];
  return undefined;
}
