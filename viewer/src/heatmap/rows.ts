import { pathsOf } from "../api/subtree";
import type { Tree } from "../api/types";

/** The most rows that are open at first, unless there would be fewer than `FEW`. */
const COMFORTABLE = 60;
const FEW = 12;

/** A tree with the paths, depths and children of its nodes. Nodes are numbers. */
export interface Forest {
  tree: Tree;
  path: string[];
  depth: number[];
  children: number[][];
  roots: number[];
}

export function forest(tree: Tree): Forest {
  const depth: number[] = [];
  const children: number[][] = tree.label.map(() => []);
  const roots: number[] = [];
  tree.parent.forEach((parent, node) => {
    if (parent < 0) roots.push(node);
    else children[parent]?.push(node);
    depth.push(parent < 0 ? 0 : (depth[parent] ?? 0) + 1);
  });
  return { tree, path: pathsOf(tree), depth, children, roots };
}

export function isBlock({ children }: Forest, node: number): boolean {
  return (children[node]?.length ?? 0) > 0;
}

/** The rows from top to bottom: the nodes whose ancestors are all open. */
export function shownRows(rows: Forest, open: ReadonlySet<number>): number[] {
  const shown: number[] = [];
  const visible = new Uint8Array(rows.tree.label.length);
  rows.tree.parent.forEach((parent, node) => {
    if (parent >= 0 && !(visible[parent] && open.has(parent))) return;
    visible[node] = 1;
    shown.push(node);
  });
  return shown;
}

/** The blocks that are open at first: as many whole levels as fit on a screen. */
export function initiallyOpen(rows: Forest): Set<number> {
  const open = new Set<number>();
  let level = rows.roots;
  let count = rows.roots.length;
  while (level.length > 0) {
    const next = level.flatMap((node) => rows.children[node] ?? []);
    // A network of one root and a hundred blocks would otherwise be one row.
    if (count + next.length > COMFORTABLE && count > FEW) break;
    count += next.length;
    for (const node of level) if (isBlock(rows, node)) open.add(node);
    level = next;
  }
  return open;
}

export function allBlocks(rows: Forest): Set<number> {
  const open = new Set<number>();
  for (let node = 0; node < rows.tree.label.length; node++) if (isBlock(rows, node)) open.add(node);
  return open;
}

/**
 * The open blocks as a short text for the address: a base ("" the initial state, "a" all, "n" none)
 * and the blocks that differ from it, in base 36, separated by dots.
 */
export function encodeOpen(rows: Forest, open: ReadonlySet<number>): string {
  const candidates = (["", "a", "n"] as const).map((base) => {
    const start = baseSet(rows, base);
    const toggled = [...allBlocks(rows)].filter((node) => open.has(node) !== start.has(node));
    return base + toggled.map((node) => `.${node.toString(36)}`).join("");
  });
  return candidates.reduce((a, b) => (b.length < a.length ? b : a));
}

export function decodeOpen(rows: Forest, text: string): Set<number> {
  const [base = "", ...toggled] = text.split(".");
  const open = new Set(baseSet(rows, base));
  for (const digits of toggled) {
    const node = Number.parseInt(digits, 36);
    if (!isBlock(rows, node)) continue;
    if (!open.delete(node)) open.add(node);
  }
  return open;
}

function baseSet(rows: Forest, base: string): Set<number> {
  if (base === "a") return allBlocks(rows);
  return base === "n" ? new Set() : initiallyOpen(rows);
}
