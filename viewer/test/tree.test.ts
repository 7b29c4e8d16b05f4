import { expect, test } from "vitest";
import { carriedTree, pathsOf } from "../src/api/subtree";
import type { Tree } from "../src/api/types";
import {
  allBlocks,
  decodeOpen,
  encodeOpen,
  forest,
  initiallyOpen,
  isBlock,
  shownRows,
} from "../src/heatmap/rows";
import { foundLabels, foundSites } from "../src/heatmap/search";
import { nearest, neighbours, pathParts } from "../src/site/places";

/** net: stem/conv (kernel, bias), head (kernel). */
const TREE: Tree = {
  kind: "gradient",
  revision: "1",
  label: ["net", "stem/conv", "kernel", "bias", "head", "kernel"],
  parent: [-1, 0, 1, 1, 0, 4],
  site: [false, false, true, true, false, true],
  count: [3, 2, 1, 1, 1, 1],
  shape: ["", "", "3x3", "3", "", "8x2"],
};

function wide(children: number): Tree {
  const nodes = Array.from({ length: children + 1 }, (_, i) => i);
  return {
    ...TREE,
    label: nodes.map((i) => (i === 0 ? "net" : `layer${i}`)),
    parent: nodes.map((i) => (i === 0 ? -1 : 0)),
    site: nodes.map((i) => i > 0),
    count: nodes.map(() => 1),
    shape: nodes.map(() => ""),
  };
}

test("the path of a node is the labels from the root", () => {
  expect(pathsOf(TREE)).toEqual([
    "net",
    "net/stem/conv",
    "net/stem/conv/kernel",
    "net/stem/conv/bias",
    "net/head",
    "net/head/kernel",
  ]);
});

test("a forest has depths, children and roots", () => {
  const rows = forest(TREE);
  expect(rows.depth).toEqual([0, 1, 2, 2, 1, 2]);
  expect(rows.children[1]).toEqual([2, 3]);
  expect(rows.roots).toEqual([0]);
  expect(isBlock(rows, 4)).toBe(true);
  expect(isBlock(rows, 5)).toBe(false);
});

test("rows below closed blocks are hidden", () => {
  const rows = forest(TREE);
  expect(shownRows(rows, new Set())).toEqual([0]);
  expect(shownRows(rows, new Set([0, 4]))).toEqual([0, 1, 4, 5]);
  // A block that is open inside of a closed one stays hidden.
  expect(shownRows(rows, new Set([1]))).toEqual([0]);
  expect([...allBlocks(rows)]).toEqual([0, 1, 4]);
});

test("small networks are open from the start, also one root with many children", () => {
  expect([...initiallyOpen(forest(TREE))]).toEqual([0, 1, 4]);
  expect([...initiallyOpen(forest(wide(500)))]).toEqual([0]);
});

test("open blocks are short in the address, and restored from it", () => {
  const rows = forest(TREE);
  expect(encodeOpen(rows, new Set([0, 1, 4]))).toBe("");
  expect(encodeOpen(rows, new Set([0, 1]))).toBe(".4");
  expect(encodeOpen(rows, new Set())).toBe("n");
  for (const open of [[], [0], [0, 4], [1, 4], [0, 1, 4]])
    expect(decodeOpen(rows, encodeOpen(rows, new Set(open)))).toEqual(new Set(open));
  // Numbers that are no blocks are ignored.
  expect(decodeOpen(rows, "n.2.zz.0")).toEqual(new Set([0]));
});

test("a carried tree has the ancestors of its nodes", () => {
  const { tree, numbers } = carriedTree(TREE, new Set([5]));
  expect(pathsOf(tree)).toEqual(["net", "net/head", "net/head/kernel"]);
  expect(tree.parent).toEqual([-1, 0, 1]);
  expect(tree.shape).toEqual(["", "", "8x2"]);
  expect([...numbers]).toEqual([
    [0, 0],
    [4, 1],
    [5, 2],
  ]);
});

test.each([
  ["kernel", [2, 5]],
  ["KER", [2, 5]],
  ["conv/kernel", [2]],
  ["kernel conv", [2]],
  ["con?/*n", [2]],
  ["net*bias", [3]],
  ["!bias", [2, 5]],
  ["net !kernel", [3]],
  ["/conv/", [2, 3]],
  ["/onv", []],
  ["k.*", []],
  ["!", [2, 3, 5]],
])("a search for %j finds %j", (text, nodes) => {
  expect(foundSites(TREE, text)).toEqual(nodes);
});

test("neighbours are sites for a site and blocks for a block", () => {
  const all = () => true;
  expect(neighbours(TREE, "net/stem/conv/bias", all)).toEqual({
    previous: "net/stem/conv/kernel",
    next: "net/head/kernel",
    place: 2,
    of: 3,
  });
  expect(neighbours(TREE, "net/head", all)).toMatchObject({
    previous: "net/stem/conv",
    next: null,
  });
  expect(neighbours(TREE, "net/none", all)).toBeNull();
  const some = (path: string) => !path.endsWith("bias");
  expect(neighbours(TREE, "net/head/kernel", some)).toMatchObject({ place: 2, of: 2 });
});

test("the nearest place in another tree is the path or an ancestor", () => {
  expect(nearest(TREE, "net/head/kernel")).toBe("net/head/kernel");
  expect(nearest(TREE, "net/head/gamma/x")).toBe("net/head");
  expect(nearest(TREE, "other")).toBeNull();
});

test("parts of a path link to the places above it", () => {
  expect(pathParts(TREE, "net/stem/conv/bias")).toEqual([
    { label: "net", above: "net" },
    { label: "stem", above: null },
    { label: "conv", above: "net/stem/conv" },
    { label: "bias", above: null },
  ]);
});

test("found paths that are too long lose the folders that they have in common", () => {
  const paths = ["model/layers/0/query/kernel", "model/layers/1/query/kernel"];
  expect(foundLabels(paths, 40)).toEqual(paths);
  expect(foundLabels(paths, 20)).toEqual(["…/0/query/kernel", "…/1/query/kernel"]);
  expect(foundLabels(["a/b/kernel", "b/kernel"], 5)).toEqual(["a/…el", "b/…el"]);
  expect(foundLabels(["model/kernel"], 20)).toEqual(["model/kernel"]);
});
