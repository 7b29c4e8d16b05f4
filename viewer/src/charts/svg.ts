import { printable } from "../format";
import { colour } from "../theme";

/** Small pieces of SVG as text. All text from outside goes through `text`, which escapes it. */

export const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

type Attributes = Record<string, string | number | undefined>;

export function element(name: string, attributes: Attributes, content = ""): string {
  const written = Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(
      ([key, value]) =>
        ` ${key}="${escaped(typeof value === "number" ? digits(value) : `${value}`)}"`,
    )
    .join("");
  return content === "" ? `<${name}${written}/>` : `<${name}${written}>${content}</${name}>`;
}

export function text(x: number, y: number, content: string, attributes: Attributes = {}): string {
  return element(
    "text",
    { x, y, fill: colour("--muted"), ...attributes },
    escaped(printable(content)),
  );
}

export function line(x1: number, y1: number, x2: number, y2: number, attributes: Attributes) {
  return element("line", { x1, y1, x2, y2, ...attributes });
}

/** A whole picture, with the page's background, that stands for itself in a file. */
export function picture(width: number, height: number, title: string, content: string): string {
  const body = [
    element("title", {}, escaped(title)),
    element("rect", { width, height, fill: colour("--paper") }),
    content,
  ].join("");
  return element(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      "font-family": FONT,
      "font-size": 11,
    },
    body,
  );
}

/** What XML reads as just this text; characters that XML cannot hold become a replacement. */
export function escaped(content: string): string {
  return (
    content
      // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what XML forbids.
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
      .replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd")
      .replaceAll("&", "&amp;")
      .replaceAll("<", "&lt;")
      .replaceAll(">", "&gt;")
      .replaceAll('"', "&quot;")
  );
}

/** A text that fits: what is left out is in the middle, as both ends of names tell most. */
export function shortened(content: string, most: number): string {
  if (content.length <= most) return content;
  const end = Math.floor((most - 1) * 0.6);
  return `${content.slice(0, most - 1 - end)}…${content.slice(content.length - end)}`;
}

/** Hundredths of a pixel are as fine as anyone sees. */
export function digits(value: number): string {
  return String(Math.round(value * 100) / 100);
}
