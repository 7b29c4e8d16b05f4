"""Whose plots a report carries, those that matter most first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gradwatch.core import Kind, Site
from gradwatch.diagnosis import Finding
from gradwatch.view.data.labels import tensor_kinds
from gradwatch.view.data.tree import Tree
from gradwatch.view.report.row_choice import levels_of

Plotted = tuple[Kind, str]
"""A kind, and the path of a site or of a layer."""


def candidates(
    trees: Mapping[Kind, Tree], findings: Sequence[Finding], worst: Mapping[str, str]
) -> list[Plotted]:
    """All that could be plotted, without repetition: what findings name, layers that stand
    out, and then every other row of the trees, level by level: blocks before their sites.

    Args:
        trees: by kind, the rows that there are.
        findings: what is wrong with the run, the worst first.
        worst: the layers to look at first, as `worst_layers` has them.

    Example:

    >>> from gradwatch import Kind, Site
    >>> from gradwatch.read import bare_info
    >>> from gradwatch.view.data.tree import Tree
    >>> from gradwatch.view.report.candidates import candidates
    >>> sites = [Site(Kind.GRADIENT, f"net/{path}") for path in ("a/kernel", "b/kernel", "b/bias")]
    >>> trees = {Kind.GRADIENT: Tree.of([bare_info(site) for site in sites])}
    >>> [path for _, path in candidates(trees, [], {"net/b": "NaN or Inf"})]
    ['net/b', 'net/b/kernel', 'net/b/bias', 'net', 'net/a/kernel']
    """
    shown = [site for kind in _in_order(set(trees)) for site in trees[kind].node_of]
    by_layer: dict[str, list[Site]] = {}
    for site in shown:
        by_layer.setdefault(site.layer, []).append(site)
    known = set(shown)

    def of_layer(layer: str) -> Iterator[Plotted]:
        own = by_layer.get(layer, [])
        for kind in _in_order({site.kind for site in own}):
            yield kind, layer
        for path in dict.fromkeys(site.path for site in own):
            for kind in _in_order({site.kind for site in own if site.path == path}):
                yield kind, path

    found: dict[Plotted, None] = {}
    for finding in findings:
        if finding.is_alarm:
            found |= {(s.kind, s.path): None for s in finding.sites if s in known}
            found |= dict.fromkeys(of_layer(finding.layer))
    for layer in worst:
        found |= dict.fromkeys(of_layer(layer))
    levels = {kind: levels_of(trees[kind]) for kind in _in_order(set(trees))}
    for depth in range(max(map(len, levels.values()), default=0)):
        for kind, own_levels in levels.items():
            nodes = own_levels[depth] if depth < len(own_levels) else []
            found |= {(kind, trees[kind].path(node)): None for node in nodes}
    return list(found)


def _in_order(kinds: set[Kind]) -> list[Kind]:
    return [kind for kind in tensor_kinds() if kind in kinds]
