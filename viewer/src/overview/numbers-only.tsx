import type { Finding } from "../api/types";
import type { RunProps } from "../page";
import { Strips } from "./strips";
import { TimeAxis } from "./time-axis";
import { useTimePlot } from "./use-time-plot";
import "./explorer.css";

interface NumbersOnlyProps extends RunProps {
  chooseFinding: (finding: Finding) => void;
}

const LABELS = 190;

/** The charts of numbers of a run without a heatmap. */
export function NumbersOnly({ source, run, query, changes, chooseFinding }: NumbersOnlyProps) {
  const { measure, plot } = useTimePlot(run, query, LABELS);
  return (
    <div class="explorer" ref={measure}>
      {plot.scale.width > 0 && (
        <>
          <Strips {...plot} source={source} run={run} changes={changes} columns={320} />
          <TimeAxis {...plot} run={run} choose={chooseFinding} />
        </>
      )}
    </div>
  );
}
