/** Formats numbers and times for display. Exact values belong in titles, tables and exports. */

/** A value to four figures: 0.001235, 1.235e-7, 45,679, nan, inf. */
export function short(value: number): string {
  return rounded(value, 4);
}

/** A value to six figures, for read-outs and tables. */
export function figures(value: number): string {
  return rounded(value, 6);
}

function rounded(value: number, digits: number): string {
  if (!Number.isFinite(value) || value === 0) return exact(value);
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e6) return scientific(value, digits);
  const decimals = digits - 1 - Math.floor(Math.log10(size));
  return value.toLocaleString("en", { maximumFractionDigits: Math.max(0, decimals) });
}

/** A value with a power of ten: 1.5e-7. */
export function scientific(value: number, digits: number): string {
  const [mantissa = "", exponent = ""] = value.toExponential(digits - 1).split("e");
  return `${Number(mantissa)}e${Number(exponent)}`;
}

/** A value with all digits, so that a program can read it back. */
export function exact(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  return String(value);
}

/** A count: 12,345. */
export function count(value: number): string {
  return value.toLocaleString("en");
}

/** A count with its noun: "1 site", "3 sites". */
export function counted(value: number, word: string): string {
  return `${count(value)} ${word}${value === 1 ? "" : "s"}`;
}

/** A share from the least to the most that it can be: 12.3 %, 12.3 – 14 %, 0 – 0.01 %. */
export function shareRange(least: number, most: number): string {
  const [low, high] = [percent(least), percent(most)];
  return low === high ? `${low} %` : `${low} – ${high} %`;
}

/** Only what is nothing or all is shown as 0 or 100. */
function percent(share: number): string {
  if (share > 0 && share < 1e-4) return "< 0.01";
  if (share > 0.9999 && share < 1) return "> 99.99";
  return String(Number((100 * share).toPrecision(share > 0.99 ? 4 : 3)));
}

/** A duration: 0.8 s, 12 s, 3 min 5 s, 2 h 10 min, 3 d 4 h. */
export function duration(seconds: number): string {
  if (seconds < 9.95) return `${Number(seconds.toFixed(1))} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.round(whole / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

/** A date in local time: 2025-03-09 14:05. */
export function date(seconds: number): string {
  const at = new Date(seconds * 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** Invisible characters, except joiners, which words and emoji need. */
const UNSEEN = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const SPELLED: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/**
 * A name for display. Characters that are invisible or change the direction of text are escaped
 * (\n, \u202e), so that two names never look the same and no name changes the text after it.
 */
export function printable(name: string): string {
  return name.replace(UNSEEN, (character) => {
    const code = (character.codePointAt(0) ?? 0).toString(16);
    const escaped = code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
    return SPELLED[character] ?? escaped;
  });
}

/** Shortens a text in the middle: both ends of a name say more than its middle. */
export function shortened(content: string, most: number): string {
  if (content.length <= most) return content;
  const end = Math.floor((most - 1) * 0.6);
  return `${content.slice(0, most - 1 - end)}…${content.slice(content.length - end)}`;
}

/** Shortens a text at its beginning: the end of a path says more. */
export function ending(content: string, most: number): string {
  const room = Math.max(4, Math.floor(most));
  return content.length <= room ? content : `…${content.slice(content.length - room + 1)}`;
}

/** One step, or the first and last of several. */
export function stepRange(first: number, last: number): string {
  return first === last ? `step ${count(first)}` : `steps ${count(first)} – ${count(last)}`;
}
