import { describe, expect, test } from "vitest";
import { group, line, type Picture, rect, type Scene, text } from "../src/charts/scene";
import { drawScene } from "../src/charts/scene-canvas";
import { escaped, sceneSvg } from "../src/charts/scene-svg";

const palette = (name: string) => (name === "--sans" ? "sans" : `<${name}>`);

function svg(scene: Scene): string {
  const picture: Picture = { width: 100, height: 50, title: "a & b", scene };
  const document = sceneSvg(picture, palette);
  const background = '<path d="M0 0H100V50H0Z" fill="&lt;--paper&gt;"/>';
  const head = `<title>a &amp; b</title>${background}`;
  expect(document.startsWith('<svg xmlns="http://www.w3.org/2000/svg" width="100"')).toBe(true);
  expect(document.endsWith("</svg>")).toBe(true);
  return document.slice(document.indexOf(head) + head.length, -"</svg>".length);
}

describe("SVG", () => {
  test("a line is a path with its colour from the palette", () => {
    expect(svg([line([1, 2], [3.149, 4], "--ink", [2, 3])])).toBe(
      '<path d="M1 2L3.15 4" fill="none" stroke="&lt;--ink&gt;" stroke-dasharray="2 3"/>',
    );
  });

  test("CSS colours are not looked up", () => {
    expect(svg([rect({ x: 1, y: 2, width: 3, height: 4 }, "rgb(1 2 3)", 0.5)])).toBe(
      '<path d="M1 2H4V6H1Z" fill="rgb(1 2 3)" fill-opacity="0.5"/>',
    );
  });

  test("a line of one point is a dot", () => {
    expect(svg([{ type: "path", lines: [[[5, 6]]], stroke: "red", width: 2 }])).toBe(
      '<path d="M5 6h0" fill="none" stroke="red" stroke-width="2" stroke-linecap="round"/>',
    );
  });

  test("text is escaped, aligned and rotated", () => {
    expect(svg([text(1, 2, "<a>\u202e", { align: "right", bold: true })])).toBe(
      '<text x="1" y="2" fill="&lt;--muted&gt;" font-weight="600" text-anchor="end">' +
        "&lt;a&gt;\\u202e</text>",
    );
    expect(svg([text(7, 8, "up", { fill: "red", upwards: true })])).toBe(
      '<text x="7" y="8" fill="red" transform="rotate(-90 7 8)">up</text>',
    );
  });

  test("each clip of a document has its own id", () => {
    const clip = { x: 0, y: 0, width: 9, height: 9 };
    const found = svg([group(0, 0, [], clip), group(5, 6, [], clip)]);
    expect(found).toBe(
      '<g clip-path="url(#clip1)"><clipPath id="clip1"><rect x="0" y="0" width="9" height="9"/>' +
        '</clipPath></g><g transform="translate(5 6)" clip-path="url(#clip2)">' +
        '<clipPath id="clip2"><rect x="0" y="0" width="9" height="9"/></clipPath></g>',
    );
  });

  test("XML gets no character that it forbids", () => {
    expect(escaped('<a b="c">&')).toBe("&lt;a b=&quot;c&quot;&gt;&amp;");
    expect(escaped("\u0000\u001f\ud800x\udc00😀")).toBe("\ufffd\ufffd\ufffdx\ufffd😀");
  });
});

/** A context that writes down what is drawn. */
function recorded(scene: Scene): string[] {
  const calls: string[] = [];
  const context = new Proxy({} as Record<string, unknown>, {
    get: (values, name) =>
      name in values
        ? values[String(name)]
        : (...parameters: unknown[]) =>
            calls.push(`${String(name)} ${parameters.join(" ")}`.trim()),
    set: (values, name, value) => {
      calls.push(`${String(name)} = ${value}`);
      values[String(name)] = value;
      return true;
    },
  });
  drawScene(context as unknown as CanvasRenderingContext2D, scene, palette);
  return calls;
}

describe("canvas", () => {
  test("a path is filled before it is stroked, each with its opacity", () => {
    const calls = recorded([
      {
        type: "path",
        lines: [
          [
            [0, 0],
            [4, 0],
            [4, 3],
          ],
        ],
        closed: true,
        fill: "--paper",
        fillOpacity: 0.85,
        stroke: "--ink",
        strokeOpacity: 0.5,
        width: 2,
      },
    ]);
    expect(calls.slice(0, 8)).toEqual([
      "beginPath",
      "moveTo 0 0",
      "lineTo 4 0",
      "lineTo 4 3",
      "closePath",
      "globalAlpha = 0.85",
      "fillStyle = <--paper>",
      "fill",
    ]);
    expect(calls.slice(8, 11)).toEqual([
      "globalAlpha = 0.5",
      "strokeStyle = <--ink>",
      "lineWidth = 2",
    ]);
    expect(calls.at(-1)).toBe("globalAlpha = 1");
    expect(calls).toContain("stroke");
  });

  test("a dot has a length, without which a canvas does not draw it", () => {
    const calls = recorded([{ type: "path", lines: [[[5, 6]]], stroke: "red" }]);
    expect(calls).toContain("moveTo 5 6");
    expect(calls).toContain("lineTo 5.01 6");
    expect(calls).toContain("lineCap = round");
  });

  test("a group moves and clips its shapes, and nothing after it", () => {
    const content = [text(1, 2, "x")];
    const calls = recorded([group(10, 20, content, { x: 0, y: 1, width: 2, height: 3 })]);
    const order = ["save", "translate 10 20", "rect 0 1 2 3", "clip", "fillText x 0 0", "restore"];
    const places = order.map((call) => calls.indexOf(call));
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(places).not.toContain(-1);
    expect(calls.filter((call) => call === "save")).toHaveLength(2);
    expect(calls.filter((call) => call === "restore")).toHaveLength(2);
  });

  test("text has the font of the page", () => {
    expect(recorded([text(1, 2, "x", { bold: true, size: 13 })])).toContain("font = 600 13px sans");
  });
});
