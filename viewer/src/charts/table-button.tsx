/** Shows or hides the table of a chart. */
export function TableButton({
  of,
  shown,
  show,
}: {
  of: string;
  shown: boolean;
  show: (shown: boolean) => void;
}) {
  return (
    <button
      type="button"
      class="chart-button"
      aria-pressed={shown}
      aria-label={`Table of ${of}`}
      onClick={() => show(!shown)}
    >
      Table
    </button>
  );
}
