import { useState } from "preact/hooks";
import type { Measure, Ranked } from "./comparison";
import { fittingPath } from "./grid-layout";
import { distanceText } from "./shades";

const SHOWN = 12;
/** How wide a path may be, in pixels. */
const LABEL = 180;

/** The layers that differ most, first; one is chosen by clicking on it. */
export function Ranking({
  ranked,
  measure,
  chosen,
  onChoose,
}: {
  ranked: readonly Ranked[];
  measure: Measure;
  chosen: string;
  onChoose: (path: string) => void;
}) {
  const [all, setAll] = useState(false);
  const listed = all ? ranked : ranked.slice(0, SHOWN);
  const most = ranked[0]?.score || 1;
  return (
    <section class="chart" aria-label="Most different layers">
      <header class="chart-head">
        <h3>Most different layers</h3>
      </header>
      <table class="compare-ranking">
        <thead>
          <tr>
            <th scope="col">layer</th>
            <th scope="col" class="number" title="The mean over time, up or down">
              apart on average
            </th>
            <th scope="col" class="number">
              last
            </th>
          </tr>
        </thead>
        <tbody>
          {listed.map(({ path, score, last }) => (
            <tr key={path} aria-current={path === chosen ? "true" : undefined}>
              <td>
                <button
                  type="button"
                  class="compare-path path"
                  title={path}
                  onClick={() => onChoose(path)}
                >
                  {fittingPath(path, LABEL)}
                </button>
              </td>
              <td class="number">
                <span class="compare-bar">
                  <i style={{ width: `${(100 * score) / most}%` }} />
                </span>
                <span class="compare-score">{distanceText(score, measure).replace("+", "")}</span>
              </td>
              <td class="number">{distanceText(last, measure)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {ranked.length > SHOWN && (
        <button type="button" class="quiet" onClick={() => setAll(!all)}>
          {all ? "Show fewer" : `Show all ${ranked.length}`}
        </button>
      )}
    </section>
  );
}
