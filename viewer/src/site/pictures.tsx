import { useEffect, useState } from "preact/hooks";
import type { Source } from "../api/source";
import { count } from "../format";
import { Problem } from "../frame/problem";
import { type Query, setQuery } from "../route";
import { useAnswer } from "../use";

const PLAY_MS = 500;

/** Pictures of a kernel. A slider selects the step; the button plays all steps. */
export function Pictures({
  source,
  run,
  path,
  query,
  changes,
}: {
  source: Source;
  run: string;
  path: string;
  query: Query;
  changes: number;
}) {
  const { data, error } = useAnswer(
    (signal) => source.pictures(run, path, signal),
    [source],
    JSON.stringify([run, path]),
    changes,
  );
  if (error) return <Problem error={error} />;
  if (data === null || data.steps.length === 0) return null;
  return (
    <Slides
      steps={data.steps}
      address={(step) => source.pictureUrl(run, path, step)}
      path={path}
      chosen={query.picture ?? ""}
    />
  );
}

function Slides({
  steps,
  address,
  path,
  chosen,
}: {
  steps: readonly number[];
  address: (step: number) => string;
  path: string;
  chosen: string;
}) {
  const last = steps.length - 1;
  const found = chosen === "" ? -1 : steps.indexOf(Number(chosen));
  // Null is the newest picture, also while the run continues.
  const [place, setPlace] = useState<number | null>(found < 0 ? null : found);
  const [playing, setPlaying] = useState(false);
  const at = Math.min(place ?? last, last);
  const step = steps[at] ?? 0;

  useEffect(() => {
    if (!playing) return;
    const timer = setTimeout(() => {
      if (at >= last) setPlaying(false);
      else setPlace(at + 1);
    }, PLAY_MS);
    return () => clearTimeout(timer);
  }, [playing, at, last]);
  const play = () => {
    if (!playing && at >= last) setPlace(0);
    setPlaying(!playing);
  };
  return (
    <section class="chart" aria-label="Pictures of the kernel">
      <header class="chart-head">
        <h3>Pictures of the kernel</h3>
        <span class="chart-note">at step {count(step)}</span>
      </header>
      <div class="site-slider">
        <button type="button" onClick={play} disabled={last < 1}>
          {playing ? "Pause" : "Play"}
        </button>
        <input
          type="range"
          min={0}
          max={last}
          value={at}
          disabled={last < 1}
          aria-label="Step of the picture"
          aria-valuetext={`step ${step}`}
          // One listener: between two, the page would be rendered with the old value.
          onInput={(event) => {
            const wanted = Number(event.currentTarget.value);
            setPlaying(false);
            setPlace(wanted);
            setQuery({ picture: String(steps[wanted] ?? "") });
          }}
        />
        <output>
          step {count(step)} <span class="muted">({`${at + 1} of ${last + 1}`})</span>
        </output>
      </div>
      <img class="site-picture" src={address(step)} alt={`Kernel ${path} at step ${step}`} />
    </section>
  );
}
