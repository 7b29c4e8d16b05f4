import { pathsOf } from "../api/subtree";
import type { Tree } from "../api/types";
import { shortened } from "../format";

/**
 * The sites of a tree whose paths contain all words of a text, in any order and in any case. A word
 * with `!` excludes paths that contain it. `*` stands for any characters, `?` for one, and `/`
 * also matches at both ends of a path. `view/data/selection.py` does the same for comparisons.
 */
export function foundSites(tree: Tree, text: string): number[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const excluded = words.filter((word) => word.startsWith("!")).map((word) => word.slice(1));
  const wanted = words.filter((word) => !word.startsWith("!"));
  const inner = new Set(tree.parent);
  return pathsOf(tree).flatMap((path, node) => {
    // A report may have a block without the sites below it.
    if (inner.has(node) && !tree.site[node]) return [];
    const searched = `/${path.toLowerCase()}/`;
    const found =
      wanted.every((word) => contains(searched, word)) &&
      !excluded.some((word) => word !== "" && contains(searched, word));
    return found ? [node] : [];
  });
}

/** Whether the pieces of a word between its `*` follow each other in a text. */
function contains(text: string, word: string): boolean {
  let from = 0;
  for (const piece of word.split("*")) {
    const at = placeOf(text, piece, from);
    if (at < 0) return false;
    from = at + piece.length;
  }
  return true;
}

function placeOf(text: string, piece: string, from: number): number {
  if (!piece.includes("?")) return text.indexOf(piece, from);
  for (let at = from; at + piece.length <= text.length; at++)
    if (piece.split("").every((one, i) => one === "?" || one === text[at + i])) return at;
  return -1;
}

/** Labels of found paths of at most so many characters, which still differ where they begin. */
export function foundLabels(paths: readonly string[], most: number): string[] {
  const tooLong = paths.some((path) => path.length > most);
  const common = tooLong && paths.length > 1 ? commonFolder(paths) : 0;
  return paths.map((path) => shortened(common > 0 ? `…/${path.slice(common)}` : path, most));
}

/** The length of the folders that all paths begin with. */
function commonFolder([first = "", ...others]: readonly string[]): number {
  let length = first.lastIndexOf("/") + 1;
  while (length > 0 && !others.every((path) => path.startsWith(first.slice(0, length))))
    length = first.lastIndexOf("/", length - 2) + 1;
  return length;
}
