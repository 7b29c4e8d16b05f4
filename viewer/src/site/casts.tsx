import type { CastData } from "../api/types";
import { count, shareRange } from "../format";

/** What casts to narrower number formats would lose of a tensor. */
export function Casts({ casts, step }: { casts: readonly CastData[]; step: number }) {
  if (casts.length === 0) return null;
  return (
    <section class="site-casts" aria-label="In narrower number formats">
      <h3>In narrower number formats</h3>
      <table>
        <caption>
          Of the elements other than 0 at step {count(step)}, a cast would make so many 0, subnormal
          (fewer bits) or too large. Two numbers are bounds.
        </caption>
        <thead>
          <tr>
            {["format", "to 0", "subnormal", "too large"].map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {casts.map(({ format, zero, subnormal, overflow }) => (
            <tr key={format}>
              <th scope="row">{format}</th>
              {[zero, subnormal, overflow].map(([least, most], i) => (
                <td key={i} title={`${least} to ${most}`}>
                  {shareRange(least, most)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
