import type { Selection, Tree } from "./types";

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

/**
 * The sites that a pattern selects, for reports, which have no server. A pattern matches
 * neighbouring components of a path; `*` and `?` match within a component. Patterns separated by
 * spaces select the union, without the matches of patterns with `!`. Names may contain spaces.
 */
export function localSelection(tree: Tree, pattern: string): Selection {
  const leaf = leaves(tree);
  const paths = pathsOf(tree).map((path) => path.split("/"));
  const text = pattern.trim();
  const nodes = (terms: string[]): number[] => {
    const wanted = terms.filter((term) => !term.startsWith("!")).map(matcher);
    const unwanted = terms.filter((term) => term.startsWith("!")).map((t) => matcher(t.slice(1)));
    return [...paths.keys()].filter((node) => {
      const parts = paths[node] ?? [];
      if (!leaf[node] || unwanted.some((matches) => matches(parts))) return false;
      return wanted.length === 0 || wanted.some((matches) => matches(parts));
    });
  };
  const whole = nodes([text]);
  const several = text.split(/\s+/);
  const found =
    several.length > 1 && (whole.length === 0 || text.startsWith("!")) ? nodes(several) : whole;
  return { revision: tree.revision, nodes: found };
}

function leaves(tree: Tree): boolean[] {
  const leaf = tree.label.map(() => true);
  for (const parent of tree.parent) if (parent >= 0) leaf[parent] = false;
  return leaf.map((is, node) => is || tree.site[node] === true);
}

function matcher(pattern: string): (parts: string[]) => boolean {
  const components = pattern
    .replace(/^\/+|\/+$/g, "")
    .split("/")
    .map((glob) => {
      const literal = glob.replace(/[.+^${}()|[\]\\]/g, "\\$&");
      return new RegExp(`^${literal.replaceAll("*", ".*").replaceAll("?", ".")}$`, "s");
    });
  return (parts) =>
    parts.some((_, start) =>
      components.every((component, i) => component.test(parts[start + i] ?? "\0")),
    );
}
