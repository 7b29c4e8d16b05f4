import { cellShapes } from "../cells/boxes";
import { printable } from "../format";
import { colour } from "../theme";
import {
  type Box,
  cachedPalette,
  type Palette,
  type PathShape,
  type Picture,
  type Point,
  rect,
  type Scene,
  type Shape,
  TEXT_SIZE,
  type TextShape,
} from "./scene";

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const ANCHOR = { left: undefined, center: "middle", right: "end" };

/** A picture as a complete SVG document. */
export function sceneSvg({ width, height, title, scene }: Picture, palette = colour): string {
  const writer = new Writer(cachedPalette(palette));
  const background = writer.shape(rect({ x: 0, y: 0, width, height }, "--paper"));
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
      case "text":
        return this.text(shape);
      case "cells":
        return this.shape(cellShapes(shape.x, shape.y, shape.grid, shape.view));
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
      "shape-rendering": shape.crisp ? "crispEdges" : undefined,
      "stroke-linejoin": shape.stroke && shape.lines.some(hasCorner) ? "round" : undefined,
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

  private group(x: number, y: number, content: string, clip?: Box): string {
    const transform = x === 0 && y === 0 ? undefined : `translate(${digits(x)} ${digits(y)})`;
    if (clip === undefined) return element("g", { transform }, content);
    const id = `clip${++this.clips}`;
    const path = element("clipPath", { id }, element("rect", { ...clip }));
    return element("g", { transform, "clip-path": `url(#${id})` }, path + content);
  }

  private colour(name: string | undefined): string | undefined {
    return name === undefined ? undefined : this.palette(name);
  }
}

function pathData(points: readonly Point[], closed: boolean): string {
  // A line without length has round ends and shows as a dot.
  const only = points.length === 1 ? "h0" : "";
  return `${points.map(pathStep).join("")}${only}${closed ? "Z" : ""}`;
}

/** The command that draws to a point; horizontal and vertical lines are shorter. */
function pathStep([x, y]: Point, i: number, points: readonly Point[]): string {
  const before = points[i - 1];
  if (before === undefined) return `M${digits(x)} ${digits(y)}`;
  if (before[1] === y) return `H${digits(x)}`;
  return before[0] === x ? `V${digits(y)}` : `L${digits(x)} ${digits(y)}`;
}

function hasCorner({ length }: readonly Point[]): boolean {
  return length > 2;
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
