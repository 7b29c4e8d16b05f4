import type { EpochData, Finding, RunData } from "../api/types";
import { stepTicks } from "../charts/scale";
import { count } from "../format";
import { TimeMarks } from "../heatmap/view";
import { useTimeGestures } from "../time/gestures";
import type { TimePlot } from "../time/plot";
import type { TimeScale } from "../time/range";

interface TimeAxisProps extends TimePlot {
  run: RunData;
  choose: (finding: Finding) => void;
}

/** The width of a tick with its text, and of the name of an epoch. */
const TICK_ROOM = 90;
const EPOCH_ROOM = 58;

/** The axis of steps with the beginnings of epochs and findings. The wheel zooms without Ctrl. */
export function TimeAxis(props: TimeAxisProps) {
  const { run, scale, time, labelWidth, cursor } = props;
  const axis = useTimeGestures<HTMLDivElement>({
    scale,
    time,
    hover: (at) => props.point(at && scale.step(at.x)),
    select: props.select,
    wheelZooms: true,
  });
  const { from, to } = scale.range;
  const inside = (step: number) => step >= from && step <= to;
  const ticks = stepTicks({ low: from, high: to }, Math.max(2, scale.width / TICK_ROOM)).filter(
    // Texts that do not fit are left out.
    (tick) => scale.x(tick + 0.5) + count(tick).length * 3.4 < scale.width,
  );
  const findings = run.findings.filter(({ since, explained_by }) => inside(since) && !explained_by);
  return (
    <div class={run.findings.length > 0 ? "axis flagged" : "axis"}>
      <div class="axis-label" style={{ width: `${labelWidth}px` }}>
        <span>{run.epochs.length > 1 ? "epoch" : ""}</span>
        <span>step</span>
      </div>
      <div
        class="axis-plot"
        ref={axis}
        style={{ width: `${scale.width}px` }}
        title="Drag to zoom, double click for all steps"
      >
        {spaced(run.epochs, scale).map(({ x, ...one }) => (
          <span
            key={one.first}
            class={one.exact ? "epoch" : "epoch vague"}
            style={{ left: `${x}px` }}
            title={epochText(one)}
          >
            {one.epoch}
            {!one.exact && "?"}
          </span>
        ))}
        {ticks.map((tick) => (
          <span key={tick} class="tick" style={{ left: `${scale.x(tick + 0.5)}px` }}>
            {count(tick)}
          </span>
        ))}
        {findings.map((finding) => (
          <button
            key={`${finding.rule} ${finding.layer} ${finding.since}`}
            type="button"
            class={`flag ${finding.severity}`}
            style={{ left: `${scale.x(finding.since + 0.5)}px` }}
            aria-label={`${finding.severity} at step ${finding.since}: ${finding.title}`}
            title={`step ${count(finding.since)}: ${finding.title}`}
            onPointerDown={(event) => event.stopPropagation()}
            onClick={() => props.choose(finding)}
          />
        ))}
        <TimeMarks scale={scale} cursor={cursor} selecting={props.selecting} />
      </div>
    </div>
  );
}

/** The epochs whose names fit, with their positions. */
function spaced(epochs: readonly EpochData[], scale: TimeScale): (EpochData & { x: number })[] {
  const shown: (EpochData & { x: number })[] = [];
  if (epochs.length < 2) return shown;
  // An epoch that began earlier is named at the left edge.
  const current = epochs.findLast(({ first }) => first < scale.range.from);
  if (current) shown.push({ ...current, x: 0 });
  for (const one of epochs) {
    const x = scale.x(one.first);
    const before = shown.at(-1);
    const fits = before === undefined || x - before.x >= EPOCH_ROOM / 2;
    if (x >= 0 && x < scale.width - 8 && fits) shown.push({ ...one, x });
  }
  return shown;
}

function epochText({ epoch, first, exact }: EpochData): string {
  const step = `step ${count(first)}`;
  return exact
    ? `Epoch ${epoch} begins at ${step}.`
    : `Epoch ${epoch} begins at ${step} or before: the steps before it were not recorded.`;
}
