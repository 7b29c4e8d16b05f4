import { printable } from "../format";
import { setQuery } from "../route";
import { type Column, type Extras, spellChoice } from "./columns";

/** The choice of the metrics and settings that are columns. */
export function ColumnMenu({ extras, shown }: { extras: Extras; shown: readonly Column[] }) {
  const { metrics, settings } = extras;
  const all = [...metrics, ...settings];
  if (all.length === 0) return null;
  const keys = new Set(shown.map(({ key }) => key));
  const toggle = (key: string) => {
    if (!keys.delete(key)) keys.add(key);
    setQuery({ columns: spellChoice(all.filter((column) => keys.has(column.key))) });
  };
  const list = (title: string, columns: readonly Column[]) =>
    columns.length > 0 && (
      <fieldset>
        <legend>{title}</legend>
        {columns.map(({ key, label }) => (
          <label key={key}>
            <input type="checkbox" checked={keys.has(key)} onChange={() => toggle(key)} />
            {printable(label)}
          </label>
        ))}
      </fieldset>
    );
  return (
    <details class="column-menu">
      <summary>Columns</summary>
      <div class="column-items">
        {list("Metrics", metrics)}
        {list("Settings", settings)}
      </div>
    </details>
  );
}
