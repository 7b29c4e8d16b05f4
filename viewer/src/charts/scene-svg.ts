import { type CellBox, cellBoxes, rowGaps } from "../cells/boxes";
import { printable } from "../format";
import { colour } from "../theme";
import {
  type Box,
  type CellsShape,
  cachedPalette,
  type Palette,
  type PathShape,
  type Picture,
  type Point,
  type Scene,
  type Shape,
  TEXT_SIZE,
  type TextShape,
} from "./scene";

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
/** Neighbouring cells touch; smoothed edges would show as lines between them. */
const CRISP = { "shape-rendering": "crispEdges" };
const HATCH_GAP = 6;
const ANCHOR = { left: undefined, center: "middle", right: "end" };

/** A picture as a complete SVG document. */
export function sceneSvg({ width, height, title, scene }: Picture, palette = colour): string {
  const writer = new Writer(cachedPalette(palette));
  const background = writer.shape({ type: "rect", x: 0, y: 0, width, height, fill: "--paper" });
  return element(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      width,
      height,
      viewBox: `0 0 ${digits(width)} ${digits(height)}`,
      "font-family": FONT,
      "font-size": TEXT_SIZE,
    },
    element("title", {}, escaped(title)) + background + writer.scene(scene),
  );
}

class Writer {
  private clips = 0;

  constructor(private readonly palette: Palette) {}

  scene(scene: Scene): string {
    return scene.map((shape) => this.shape(shape)).join("");
  }

  shape(shape: Shape): string {
    switch (shape.type) {
      case "path":
        return this.path(shape);
      case "rect":
        return element("rect", {
          ...boxOf(shape),
          fill: this.colour(shape.fill) ?? "none",
          "fill-opacity": unlessOne(shape.fillOpacity),
          stroke: this.colour(shape.stroke),
          "stroke-width": unlessOne(shape.strokeWidth),
        });
      case "text":
        return this.text(shape);
      case "cells":
        return this.cells(shape);
      case "group":
        return this.group(shape.x, shape.y, this.scene(shape.content), shape.clip);
    }
  }

  private path(shape: PathShape): string {
    return element("path", {
      d: shape.lines.map((points) => pathData(points, shape.closed ?? false)).join(""),
      fill: this.colour(shape.fill) ?? "none",
      "fill-opacity": unlessOne(shape.fillOpacity),
      stroke: this.colour(shape.stroke),
      "stroke-width": unlessOne(shape.width),
      "stroke-opacity": unlessOne(shape.strokeOpacity),
      "stroke-dasharray": shape.dash?.join(" "),
      "stroke-linecap": shape.lines.some(({ length }) => length === 1) ? "round" : undefined,
      "stroke-linejoin": shape.lines.some(({ length }) => length > 2) ? "round" : undefined,
    });
  }

  private text({ x, y, text, fill, size, bold, align = "left", upwards }: TextShape): string {
    return element(
      "text",
      {
        x,
        y,
        fill: this.colour(fill ?? "--muted"),
        "font-size": size,
        "font-weight": bold ? 600 : undefined,
        "text-anchor": ANCHOR[align],
        transform: upwards ? `rotate(-90 ${digits(x)} ${digits(y)})` : undefined,
      },
      escaped(printable(text)),
    );
  }

  /** A path for each colour is far smaller than a rectangle for each cell. */
  private cells({ x, y, grid, view }: CellsShape): string {
    const plot = { x: 0, y: 0, width: view.scale.width, height: view.height };
    const byColour = new Map<string, CellBox[]>();
    for (const box of cellBoxes(grid, view)) {
      const boxes = byColour.get(box.fill);
      if (boxes) boxes.push(box);
      else byColour.set(box.fill, [box]);
    }
    const content = [
      this.shape({ type: "rect", ...plot, fill: "--paper" }),
      this.path({ type: "path", lines: hatchLines(plot), stroke: "--hatch" }),
      ...[...byColour].map(([fill, boxes]) => this.boxes(boxes, fill)),
      this.boxes(rowGaps(grid, view), "--paper"),
    ];
    return this.group(x, y, content.join(""), plot);
  }

  private boxes(boxes: readonly Box[], fill: string): string {
    const d = boxes
      .map(({ x, y, width, height }) => {
        const [side, tall] = [digits(width), digits(height)];
        return `M${digits(x)} ${digits(y)}h${side}v${tall}h-${side}z`;
      })
      .join("");
    return d === "" ? "" : element("path", { d, fill: this.colour(fill), ...CRISP });
  }

  private group(x: number, y: number, content: string, clip?: Box): string {
    const transform = x === 0 && y === 0 ? undefined : `translate(${digits(x)} ${digits(y)})`;
    if (clip === undefined) return element("g", { transform }, content);
    const id = `clip${++this.clips}`;
    const path = element("clipPath", { id }, element("rect", { ...boxOf(clip) }));
    return element("g", { transform, "clip-path": `url(#${id})` }, path + content);
  }

  private colour(name: string | undefined): string | undefined {
    return name === undefined ? undefined : this.palette(name);
  }
}

/** Slanted lines that fill a box: nothing was measured where no cell covers them. */
function hatchLines({ width, height }: Box): Point[][] {
  const lines: Point[][] = [];
  for (let x = 0; x < width + height; x += HATCH_GAP)
    lines.push([
      [x - height, height],
      [x, 0],
    ]);
  return lines;
}

function pathData(points: readonly Point[], closed: boolean): string {
  const [first] = points;
  if (first === undefined) return "";
  // A line without length has round ends and shows as a dot.
  if (points.length === 1) return `M${spelled(first)}h0`;
  return `M${points.map(spelled).join("L")}${closed ? "Z" : ""}`;
}

function spelled([x, y]: Point): string {
  return `${digits(x)} ${digits(y)}`;
}

function boxOf({ x, y, width, height }: Box): Box {
  return { x, y, width, height };
}

function unlessOne(value: number | undefined): number | undefined {
  return value === 1 ? undefined : value;
}

type Attributes = Record<string, string | number | undefined>;

function element(name: string, attributes: Attributes, content = ""): string {
  const written = Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => {
      const spelling = typeof value === "number" ? digits(value) : `${value}`;
      return ` ${key}="${escaped(spelling)}"`;
    })
    .join("");
  return content === "" ? `<${name}${written}/>` : `<${name}${written}>${content}</${name}>`;
}

/** Escapes text for XML. Characters that XML cannot contain become a replacement character. */
export function escaped(content: string): string {
  return (
    content
      // biome-ignore lint/suspicious/noControlCharactersInRegex: XML forbids these characters.
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
      .replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd")
      .replaceAll("&", "&amp;")
      .replaceAll("<", "&lt;")
      .replaceAll(">", "&gt;")
      .replaceAll('"', "&quot;")
  );
}

/** A coordinate to a hundredth of a pixel. */
function digits(value: number): string {
  return String(Math.round(value * 100) / 100);
}
