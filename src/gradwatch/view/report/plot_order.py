"""The order in which a report adds plots of sites and layers."""

from collections.abc import Iterator, Mapping, Sequence

from gradwatch.core import Kind, Site
from gradwatch.diagnosis import Finding
from gradwatch.view.data.labels import tensor_kinds
from gradwatch.view.data.tree import Tree

Plot = tuple[Kind, str]
"""A kind, and the path of a site, a layer or a block."""


def plot_order(
    trees: Mapping[Kind, Tree], findings: Sequence[Finding], worst: Mapping[str, str]
) -> list[Plot]:
    """All possible plots: sites of findings, worst layers, then the trees level by level."""
    kinds = [kind for kind in tensor_kinds() if kind in trees]
    by_layer: dict[str, list[Site]] = {}
    for kind in kinds:
        for site in trees[kind].node_of:
            by_layer.setdefault(site.layer, []).append(site)

    def of_layer(layer: str) -> Iterator[Plot]:
        own = by_layer.get(layer, [])
        yield from ((site.kind, layer) for site in own)
        for path in dict.fromkeys(site.path for site in own):
            yield from ((site.kind, path) for site in own if site.path == path)

    found: dict[Plot, None] = {}
    for finding in findings:
        if finding.is_alarm:
            known = (site for site in finding.sites if site in by_layer.get(site.layer, ()))
            found |= {(site.kind, site.path): None for site in known}
            found |= dict.fromkeys(of_layer(finding.layer))
    for layer in worst:
        found |= dict.fromkeys(of_layer(layer))
    levels = {kind: trees[kind].levels() for kind in kinds}
    for depth in range(max(map(len, levels.values()), default=0)):
        for kind, own_levels in levels.items():
            nodes = own_levels[depth] if depth < len(own_levels) else []
            found |= {(kind, trees[kind].path(node)): None for node in nodes}
    return list(found)
