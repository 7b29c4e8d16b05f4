import { csvText, type Table } from "./table";

/** What can be saved of a chart. Both are made when asked for, from what is shown then. */
export interface Exportable {
  /** The parts of the file's name, such as the run, the path and the statistic. */
  name: readonly string[];
  /** The chart as a whole SVG document; PNG is made of it too. */
  svg: () => string;
  table: () => Table;
}

export type Format = "PNG" | "SVG" | "CSV";

/** Pixels of a PNG for each of the chart's: sharp on paper and on dense screens. */
const PNG_SCALE = 2;

/** Saves a chart as a file, as the browser saves downloads. */
export async function save(chart: Exportable, format: Format): Promise<void> {
  const name = fileName(chart.name);
  if (format === "CSV")
    download(new Blob([csvText(chart.table())], { type: "text/csv;charset=utf-8" }), `${name}.csv`);
  else if (format === "SVG") download(svgBlob(chart.svg()), `${name}.svg`);
  else download(await pngOf(chart.svg()), `${name}.png`);
}

/**
 * A name that is safe on every file system: letters, digits, dots, dashes and underscores, no
 * dot in front, not too long.
 */
export function fileName(parts: readonly string[]): string {
  const name = parts
    .map((part) => part.replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^[._-]+|[._-]+$/g, ""))
    .filter((part) => part !== "")
    .join("-");
  return name.slice(0, 120) || "chart";
}

async function pngOf(svg: string): Promise<Blob> {
  const address = URL.createObjectURL(svgBlob(svg));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.width * PNG_SCALE;
    canvas.height = image.height * PNG_SCALE;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) =>
      canvas.toBlob((blob) =>
        blob ? resolve(blob) : reject(new Error("This browser cannot draw so large a picture.")),
      ),
    );
  } finally {
    URL.revokeObjectURL(address);
  }
}

function svgBlob(svg: string): Blob {
  return new Blob([svg], { type: "image/svg+xml;charset=utf-8" });
}

function download(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
