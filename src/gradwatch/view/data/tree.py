"""The rows of a heatmap: blocks, layers and sites, as a tree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gradwatch.core import Site, SiteInfo
from gradwatch.read import RowGroups


@dataclass(eq=False)
class Tree:
    """Blocks, layers and sites of one kind in network order, a parent before its children.

    Chains of only children are one node with a "/" in its label. `sites` has None for a node
    that merges those below it; the other lists are as in `Tree` of `types.ts`.
    """

    revision: str
    label: list[str] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    sites: list[Site | None] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    shape: list[str] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    """The number after the last node below each."""
    node_of: dict[Site, int] = field(default_factory=dict)

    @classmethod
    def of(cls, infos: Sequence[SiteInfo]) -> Tree:
        """The tree of sites of one kind, in network order."""
        root = _Node("")
        for info in infos:
            node = root
            for part in info.path.split("/"):
                found = node.children.get(part)
                if found is None:
                    found = node.children[part] = _Node(part)
                node = found
            node.info = info
        content = "\0".join(f"{i.path}\0{shape_of(i)}" for i in infos)
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass"))
        tree = cls(digest.hexdigest()[:16])
        # Not recursive: a name may have any number of slashes.
        waiting = [(child, -1) for child in reversed(root.children.values())]
        while waiting:
            node, parent = waiting.pop()
            label = node.label
            while node.info is None and len(node.children) == 1:
                node = next(iter(node.children.values()))
                label = f"{label}/{node.label}"
            number = len(tree.label)
            tree._add(label, parent, node.info)
            waiting += [(child, number) for child in reversed(node.children.values())]
        tree._count()
        return tree

    def __len__(self) -> int:
        return len(self.label)

    def path(self, node: int) -> str:
        """The labels from the root to a node."""
        labels = []
        while node >= 0:
            labels.append(self.label[node])
            node = self.parent[node]
        return "/".join(reversed(labels))

    def members(self, node: int) -> tuple[Site, ...]:
        """The sites of a node: its own, or all below it except slices."""
        own = self.sites[node]
        if own is not None:
            return (own,)
        below = (self.sites[i] for i in range(node + 1, self.end[node]))
        return tuple(site for site in below if site is not None and not site.is_slice)

    def levels(self) -> list[list[int]]:
        """The nodes of each level, the roots first."""
        levels: list[list[int]] = []
        depth: list[int] = []
        for node, parent in enumerate(self.parent):
            depth.append(depth[parent] + 1 if parent >= 0 else 0)
            if depth[node] == len(levels):
                levels.append([])
            levels[depth[node]].append(node)
        return levels

    def upper_nodes(self, count: int, preferred: Iterable[int] = ()) -> list[int]:
        """At most `count` nodes in order: preferred ones, then level by level.

        Every node's parents are included. Preferred nodes take a quarter of the count at most.
        Of a level that does not fit, the first nodes are taken.
        """
        if len(self) <= count:
            return list(range(len(self)))
        kept: set[int] = set()
        for node in preferred:
            line = {node}
            while (node := self.parent[node]) >= 0:
                line.add(node)
            if len(kept | line) <= count // 4:
                kept |= line
        for level in self.levels():
            kept.update([node for node in level if node not in kept][: count - len(kept)])
        return sorted(kept)

    def rows(self, nodes: Sequence[int]) -> RowGroups:
        """The rows of these nodes."""
        kinds = {site.kind for site in self.node_of}
        key = (*kinds, self.revision, tuple(nodes))
        return RowGroups(key, tuple(self.members(node) for node in nodes))

    def _add(self, label: str, parent: int, info: SiteInfo | None) -> None:
        if info is not None:
            self.node_of[info.site] = len(self.label)
        self.label.append(label)
        self.parent.append(parent)
        self.sites.append(None if info is None else info.site)
        self.shape.append("" if info is None else shape_of(info))

    def _count(self) -> None:
        self.count = [int(site is not None) for site in self.sites]
        self.end = [i + 1 for i in range(len(self))]
        for node in reversed(range(len(self))):
            parent = self.parent[node]
            if parent >= 0:
                self.count[parent] += self.count[node]
                self.end[parent] = max(self.end[parent], self.end[node])


class _Node:
    """A component of paths, while the tree is built."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.info: SiteInfo | None = None
        self.children: dict[str, _Node] = {}


def shape_of(info: SiteInfo) -> str:
    """Shape and dtype, as far as they are known: "3x3x16 float32"."""
    sizes = "x".join(str(size) for size in info.shape)
    return f"{sizes} {info.dtype}".strip()
