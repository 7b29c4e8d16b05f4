interface ChoiceProps {
  label: string;
  value: string;
  options: readonly (readonly [value: string, label: string])[];
  onChoose: (value: string) => void;
  /** Whether the label is shown; screen readers always read it. */
  visible?: boolean;
}

/** A list of options. */
export function Choice({ label, value, options, onChoose, visible = false }: ChoiceProps) {
  const list = (
    <select
      aria-label={label}
      value={value}
      onChange={(event) => onChoose(event.currentTarget.value)}
    >
      {options.map(([name, text]) => (
        <option key={name} value={name}>
          {text}
        </option>
      ))}
    </select>
  );
  if (!visible) return list;
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is the list.
    <label>
      {label}
      {list}
    </label>
  );
}
