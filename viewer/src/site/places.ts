import { pathsOf } from "../api/subtree";
import type { Tree } from "../api/types";
import { printable } from "../format";

/** The neighbours of a path in its tree, and its place in the trees of other kinds. */

/** A cache, since trees do not change and may be large. */
const places = new WeakMap<Tree, ReadonlyMap<string, number>>();

/** The nodes of a tree by their paths, in network order. */
function nodesOf(tree: Tree): ReadonlyMap<string, number> {
  const found = places.get(tree) ?? new Map(pathsOf(tree).map((path, node) => [path, node]));
  places.set(tree, found);
  return found;
}

export interface Neighbours {
  previous: string | null;
  next: string | null;
  /** Its position among the sites or blocks, from 1, and their number. */
  place: number;
  of: number;
}

/** The sites before and after a site in network order, or the blocks before and after a block. */
export function neighbours(
  tree: Tree,
  path: string,
  offered: (path: string) => boolean,
): Neighbours | null {
  const nodes = nodesOf(tree);
  const node = nodes.get(path);
  if (node === undefined) return null;
  const like = [...nodes]
    .filter(([one, i]) => tree.site[i] === tree.site[node] && offered(one))
    .map(([one]) => one);
  const at = like.indexOf(path);
  if (at < 0) return null;
  return {
    previous: like[at - 1] ?? null,
    next: like[at + 1] ?? null,
    place: at + 1,
    of: like.length,
  };
}

/** The path itself, or the nearest layer or block above it in the tree. */
export function nearest(tree: Tree, path: string): string | null {
  const known = nodesOf(tree);
  for (let at = path; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf("/"))))
    if (known.has(at)) return at;
  return null;
}

/** The parts of a path, each with the path of the block that it ends, if there is one. */
export function pathParts(
  tree: Tree | null,
  path: string,
): { label: string; above: string | null }[] {
  const known = tree ? nodesOf(tree) : new Map<string, number>();
  const parts = path.split("/");
  return parts.map((label, i) => {
    const above = parts.slice(0, i + 1).join("/");
    return {
      label: printable(label),
      above: i < parts.length - 1 && known.has(above) ? above : null,
    };
  });
}
