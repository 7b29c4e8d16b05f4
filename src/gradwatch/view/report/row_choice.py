"""Which rows of a heatmap a report carries: all, or the upper levels of the tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradwatch.view.data.plain import Answer
from gradwatch.view.data.tree import Tree


def upper_rows(tree: Tree, most: int, wanted: Iterable[int] = ()) -> list[int]:
    """At most so many nodes of a tree, ascending: those wanted, then level by level.

    A block whose children are left out remains, as its sites merged. Of a level that does
    not fit as a whole, the first nodes are taken.

    Args:
        tree: the rows that there are.
        most: how many there may be.
        wanted: nodes that are to be there if any is; a quarter of all at most.

    Example:

    >>> from gradwatch import Kind, Site
    >>> from gradwatch.read import bare_info
    >>> from gradwatch.view.data.tree import Tree
    >>> from gradwatch.view.report.row_choice import upper_rows
    >>> paths = ["net/a/kernel", "net/a/bias", "net/b/kernel", "net/b/bias"]
    >>> tree = Tree.of([bare_info(Site(Kind.GRADIENT, path)) for path in paths])
    >>> [tree.path(node) for node in upper_rows(tree, 3)]
    ['net', 'net/a', 'net/b']
    """
    if len(tree) <= most:
        return list(range(len(tree)))
    kept: set[int] = set()
    for node in wanted:
        line = [node]
        while tree.parent[line[-1]] >= 0:
            line.append(tree.parent[line[-1]])
        if len(kept.union(line)) <= most // 4:
            kept.update(line)
    for level in levels_of(tree):
        missing = [node for node in level if node not in kept]
        kept.update(missing[: most - len(kept)])
        if len(kept) >= most:
            break
    return sorted(kept)


def levels_of(tree: Tree) -> list[list[int]]:
    """The nodes of each level, the roots first."""
    levels: list[list[int]] = []
    depth: list[int] = []
    for node, parent in enumerate(tree.parent):
        depth.append(depth[parent] + 1 if parent >= 0 else 0)
        if depth[node] == len(levels):
            levels.append([])
        levels[depth[node]].append(node)
    return levels


def cut(tree: Answer, nodes: Sequence[int]) -> Answer:
    """`Tree` of `types.ts` with only these nodes, numbered anew; their parents are among them."""
    numbers = {node: number for number, node in enumerate(nodes)}
    parents = [numbers.get(tree["parent"][node], -1) for node in nodes]
    lists = {
        name: [tree[name][node] for node in nodes] for name in ("label", "site", "count", "shape")
    }
    return {"kind": tree["kind"], "revision": tree["revision"], **lists, "parent": parents}
