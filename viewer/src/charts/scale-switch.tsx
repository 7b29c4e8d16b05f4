import type { ScaleKind } from "./scale";

/** Chooses between a linear and a logarithmic scale. */
export function ScaleSwitch({
  title,
  scale,
  onScale,
}: {
  title: string;
  scale: ScaleKind;
  onScale: (scale: ScaleKind) => void;
}) {
  return (
    <fieldset class="chart-switch" aria-label={`Scale of ${title}`}>
      {(["log", "linear"] as const).map((kind) => (
        <button
          key={kind}
          type="button"
          aria-pressed={scale === kind}
          onClick={() => onScale(kind)}
        >
          {kind}
        </button>
      ))}
    </fieldset>
  );
}
