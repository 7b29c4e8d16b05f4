import type { Picture } from "./scene";
import { scenePng } from "./scene-canvas";
import { sceneSvg } from "./scene-svg";
import { csvText, type Table } from "./table";

/** What can be saved of a chart. Both are built on demand, from what is shown at that time. */
export interface Exportable {
  /** The parts of the file name, such as the run, the path and the statistic. */
  name: readonly string[];
  picture: () => Picture;
  table: () => Table;
}

export type Format = "PNG" | "SVG" | "CSV";

/** PNG pixels for each CSS pixel: sharp on paper and on dense screens. */
const PNG_RATIO = 2;

/** Saves a chart as a file, through a download of the browser. */
export async function save(chart: Exportable, format: Format): Promise<void> {
  download(await contentOf(chart, format), `${fileName(chart.name)}.${format.toLowerCase()}`);
}

async function contentOf(chart: Exportable, format: Format): Promise<Blob> {
  switch (format) {
    case "CSV":
      return new Blob([csvText(chart.table())], { type: "text/csv;charset=utf-8" });
    case "SVG":
      return new Blob([sceneSvg(chart.picture())], { type: "image/svg+xml;charset=utf-8" });
    case "PNG":
      return await scenePng(chart.picture(), PNG_RATIO);
  }
}

/**
 * A name that is valid on every file system: letters, digits, dots, dashes and underscores, no
 * leading dot, not too long.
 */
export function fileName(parts: readonly string[]): string {
  const name = parts
    .map((part) => part.replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^[._-]+|[._-]+$/g, ""))
    .filter((part) => part !== "")
    .join("-");
  return name.slice(0, 120) || "chart";
}

function download(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // The browser has started to read the content by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
