import { toggleTheme, useTheme } from "../theme";

export function ThemeButton() {
  const other = useTheme() === "dark" ? "light" : "dark";
  const label = `Switch to the ${other} theme`;
  return (
    <button type="button" class="quiet icon" aria-label={label} title={label} onClick={toggleTheme}>
      <svg width="15" height="15" viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="8" cy="8" r="6.25" fill="none" stroke="currentColor" stroke-width="1.5" />
        <path d="M8 1.75a6.25 6.25 0 0 1 0 12.5z" fill="currentColor" />
      </svg>
    </button>
  );
}
