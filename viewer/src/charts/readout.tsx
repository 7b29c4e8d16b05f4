import { exact, figures, short } from "../format";
import type { LineModel } from "./model";
import { lastText, lineReadout } from "./readout-values";

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
      <span class="chart-where">{cursor === null && where ? lastText(model, where) : where}</span>
      {lines.map(({ name, values, colour, raw }) => {
        const { value, average } = lineReadout({ values, ...(raw && { raw }) }, cursor);
        return (
          <button {...key(name)} data-value={value === undefined ? "" : exact(value)}>
            <i style={{ background: `var(--${colour})` }} />
            <span>{name}</span>
            <b>{text(value, format)}</b>
            {average !== undefined && (
              <small data-smoothed={exact(average)}>smoothed {format(average)}</small>
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
