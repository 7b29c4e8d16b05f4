import type { Tree } from "./types";

/**
 * A tree of some nodes and their ancestors, with the new number of each of these nodes. A block
 * without its children stays as a row of its merged sites.
 */
export function carriedTree(
  tree: Tree,
  carried: ReadonlySet<number>,
): { tree: Tree; numbers: Map<number, number> } {
  const kept = new Set<number>();
  for (const node of carried)
    for (let at = node; at >= 0 && !kept.has(at); at = tree.parent[at] ?? -1) kept.add(at);
  const nodes = [...kept].sort((a, b) => a - b);
  const numbers = new Map(nodes.map((node, number) => [node, number]));
  const pick = <T>(values: T[]): T[] => nodes.map((node) => values[node] as T);
  return {
    numbers,
    tree: {
      kind: tree.kind,
      revision: tree.revision,
      label: pick(tree.label),
      parent: pick(tree.parent).map((parent) => numbers.get(parent) ?? -1),
      site: pick(tree.site),
      count: pick(tree.count),
      shape: pick(tree.shape),
    },
  };
}

/** The path of each node: the labels from the root to the node, joined. */
export function pathsOf(tree: Tree): string[] {
  const paths: string[] = [];
  tree.label.forEach((label, node) => {
    const parent = tree.parent[node] ?? -1;
    paths.push(parent < 0 ? label : `${paths[parent]}/${label}`);
  });
  return paths;
}
