import { useState } from "preact/hooks";
import { useSize } from "../use";
import { distanceText } from "./colours";
import type { Comparison, Measure, Ranked } from "./comparison";
import { CHARACTER, fittingPath } from "./grid-layout";
import { columnText } from "./words";

const SHOWN = 12;
/** The part of the table's width for paths, and their padding: see compare.css. */
const PATHS = 0.56;
const PADDING = 12;

/** The layers, the most different first. A click selects one. */
export function Ranking({
  comparison,
  ranked,
  measure: by,
  chosen,
  onChoose,
}: {
  comparison: Comparison;
  ranked: readonly Ranked[];
  measure: Measure;
  chosen: string;
  onChoose: (path: string) => void;
}) {
  const [all, setAll] = useState(false);
  const [measure, { width }] = useSize<HTMLTableElement>();
  const listed = all ? ranked : ranked.slice(0, SHOWN);
  const most = ranked[0]?.score || 1;
  const columns = new Set(ranked.map(({ lastColumn }) => lastColumn));
  const [column = 0] = columns;
  const where = columns.size > 1 ? "of each layer" : columnText(comparison, column);
  return (
    <section class="chart" aria-label="Most different layers">
      <header class="chart-head">
        <h3>Most different layers</h3>
      </header>
      <table class="compare-ranking" ref={measure}>
        <thead>
          <tr>
            <th scope="col">layer</th>
            <th scope="col" class="number" title="The mean of the absolute distance over time">
              mean distance
            </th>
            <th scope="col" class="number">
              last of both
            </th>
          </tr>
        </thead>
        <tbody>
          {listed.map(({ path, score, last, lastColumn }) => (
            <tr key={path} aria-current={path === chosen ? "true" : undefined}>
              <td>
                <button
                  type="button"
                  class="compare-path path"
                  title={path}
                  onClick={() => onChoose(path)}
                >
                  {fittingPath(path, PATHS * width - PADDING, CHARACTER.mono)}
                </button>
              </td>
              <td class="number">
                <span class="compare-bar">
                  <i style={{ width: `${(100 * score) / most}%` }} />
                </span>
                <span class="compare-score">{distanceText(score, by).replace("+", "")}</span>
              </td>
              <td class="number" title={columnText(comparison, lastColumn)}>
                {distanceText(last, by)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="muted">Last of both: {where}, the last that both runs have.</p>
      {ranked.length > SHOWN && (
        <button type="button" class="quiet" onClick={() => setAll(!all)}>
          {all ? "Show fewer" : `Show all ${ranked.length}`}
        </button>
      )}
    </section>
  );
}
