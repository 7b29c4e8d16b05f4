import { count, scientific, short } from "../format";

/** Formats numbers for read-outs and axes; see also format.ts. */

/** A share from 0 to 1 in per cent: "0.3 %". */
export function percent(share: number): string {
  return Number.isFinite(share) ? `${short(share * 100)} %` : "–";
}

/** The texts of ticks, with equally many decimals. */
export function tickTexts(ticks: readonly number[]): string[] {
  const gaps = ticks.slice(1).map((tick, i) => tick - (ticks[i] ?? 0));
  const gap = Math.min(...gaps);
  const logarithmic = Math.max(...gaps) > 1.5 * gap;
  if (gaps.length < 2 || logarithmic) return ticks.map(short);
  const largest = Math.max(...ticks.map(Math.abs));
  if (largest < 1e-3 || largest >= 1e6) {
    const digits = Math.max(1, Math.ceil(Math.log10(largest / gap) - 1e-9) + 1);
    return ticks.map((tick) => (tick === 0 ? "0" : scientific(tick, digits)));
  }
  const decimals = Math.min(12, Math.max(0, -Math.floor(Math.log10(gap) + 1e-9)));
  return ticks.map((tick) => (decimals === 0 ? count(tick) : tick.toFixed(decimals)));
}
