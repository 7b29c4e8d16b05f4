"""The structure of a network: which variables are matrices, and what a step computes first."""

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from gradwatch.core import Kind, LayerFacts, ModelFacts, Site
from gradwatch.diagnosis.value_table import Mask, ValueTable
from gradwatch.util import counted

_NORM_OR_EMBEDDING = re.compile(r"norm|embed", re.IGNORECASE)
_NO_MATRIX = re.compile(
    r"((\w+_)?bias|beta|gamma|scale|offset|alpha|embeddings?|moving_\w+|running_\w+|num_batches_tracked"
    r"|bias_[a-z0-9_]+|seed_generator_state|seed|count|mean|variance)(#\d+)?"
)
_CALL = re.compile(r"(@\d+)?(:\d+)?$")

PHASES = {
    Kind.INPUT: 0,
    Kind.OUTPUT: 1,
    Kind.TARGET: 2,
    Kind.LOSS: 3,
    Kind.OUTPUT_GRADIENT: 4,
    Kind.GRADIENT: 4,
    Kind.APPLIED_GRADIENT: 5,
    Kind.UPDATE: 6,
    Kind.WEIGHT: 7,
}
"""The phase of a step in which a kind is computed."""
BACKWARD = (Kind.OUTPUT_GRADIENT, Kind.GRADIENT, Kind.APPLIED_GRADIENT)


def matrices(table: ValueTable, facts: ModelFacts) -> Mask:
    """For each site, whether the variable is a matrix or kernel that mixes features.

    Biases, the scales and shifts of normalizations, and embeddings have ranges of their own;
    rules about gradients and updates leave them out.
    """
    return table.cached_per_sites("matrices", lambda: _matrices(table, facts))


def _matrices(table: ValueTable, facts: ModelFacts) -> Mask:
    sizes = np.nan_to_num(table.latest("count")) if len(table) else np.zeros(len(table.sites))
    biases = {
        site.layer: size
        for site, size in zip(table.sites, sizes, strict=True)
        if site.path.rpartition("/")[2] == "bias"
    }
    found = []
    for site, size in zip(table.sites, sizes, strict=True):
        part = site.path.rpartition("/")[2]
        known = next(filter(None, map(facts.layer, _with_parents(site.layer))), None)
        kind = (known.class_name if known is not None else None) or site.layer.rpartition("/")[2]
        is_other = (
            _NO_MATRIX.fullmatch(part) is not None
            or _NORM_OR_EMBEDDING.search(kind) is not None
            # In torch the scale of a normalization is called `weight` too; it is as long as the
            # bias.
            or (part.startswith("weight") and 0 < size == biases.get(site.layer))
        )
        found.append(not is_other)
    return np.array(found, bool)


class LayerOrder:
    """The order in which layers are executed, as far as it is known.

    It comes from the facts or, for layers without facts, from the order in which outputs were
    recorded. A layer comes after the layers inside it.

    Args:
        known: the layers of the model's facts.
        paths: the layers of the recorded sites.

    Example:

    >>> from gradwatch.diagnosis.network_order import LayerOrder
    >>> order = LayerOrder([], ["net/block", "net/block/a", "net/block/b", "net/head"])
    >>> sorted(["net/head", "net/block", "net/block/b", "net/block/a"], key=order.rank)
    ['net/block/a', 'net/block/b', 'net/block', 'net/head']
    """

    def __init__(self, known: Iterable[LayerFacts], paths: Sequence[str]) -> None:
        ordered = [layer.path for layer in known]
        listed = set(ordered)
        ordered += [path for path in _inner_first(paths) if path not in listed]
        self._rank = {path: i for i, path in enumerate(ordered)}
        self.paths = tuple(ordered)

    def rank(self, path: str) -> int:
        """The position of a layer; for an unknown layer, that of the layer around it."""
        path = _CALL.sub("", path, count=1)
        known = (self._rank[each] for each in _with_parents(path) if each in self._rank)
        return next(known, len(self._rank))

    def moment(self, site: Site) -> tuple[int, int, int]:
        """When in the step a tensor is computed; smaller is earlier.

        The backward pass runs through the layers in reverse.

        Example:

        >>> from gradwatch import Kind, Site
        >>> from gradwatch.diagnosis.network_order import LayerOrder
        >>> order = LayerOrder([], ["a", "b"])
        >>> sites = [Site(kind, x) for kind in (Kind.OUTPUT_GRADIENT, Kind.OUTPUT) for x in "ab"]
        >>> [str(site) for site in sorted(sites, key=order.moment)]
        ['output a', 'output b', 'output_gradient b', 'output_gradient a']
        """
        rank = self.rank(site.layer)
        if site.kind in (Kind.OUTPUT_GRADIENT, Kind.GRADIENT):
            # The gradient of a layer's output is computed before those of its variables.
            return PHASES[site.kind], -rank, int(site.kind is Kind.GRADIENT)
        return PHASES[site.kind], rank, 0


def _inner_first(paths: Sequence[str]) -> list[str]:
    """The paths in their order, but each after the paths inside it."""
    unique = list(dict.fromkeys(paths))
    last = {path: i for i, path in enumerate(unique)}
    for i, path in enumerate(unique):
        for parent in _with_parents(path):
            if parent in last:
                last[parent] = max(last[parent], i)
    # At the same position the deeper one comes first: it is inside the other.
    return sorted(unique, key=lambda path: (last[path], -path.count("/")))


def _with_parents(path: str) -> Iterator[str]:
    """The path, and the paths that contain it, innermost first."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def enumerate_layers(layers: Sequence[str]) -> str:
    """Some layers as text: the first, and how many more."""
    more = len(layers) - 1
    return f"{layers[0]} and {counted(more, 'more layer')}" if more else layers[0]


def output_place(outputs: ValueTable, facts: ModelFacts) -> int | None:
    """The place of the output layer among the outputs that are measured."""
    return next((i for i, site in enumerate(outputs.sites) if site.layer in facts.outputs), None)
