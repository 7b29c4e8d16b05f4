"""The parts of a network: which variables are matrices, and what a step computes first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, LayerFacts, ModelFacts, Site
from gradwatch.diagnosis.value_table import ValueTable

RELU_LIKE = frozenset({"relu", "relu6", "ReLU", "ReLU6"})
"""Activations that return exactly 0 for a range of inputs, and have no slope there."""

_NORM = re.compile(r"norm", re.IGNORECASE)
_EMBEDDING = re.compile(r"embed", re.IGNORECASE)
_NO_MATRIX = re.compile(
    r"(bias|beta|gamma|scale|offset|alpha|embeddings?|moving_\w+|running_\w+|num_batches_tracked"
    r"|bias_[a-z0-9_]+|seed_generator_state|seed|count|mean|variance)(#\d+)?"
)
_CALL = re.compile(r"(@\d+)?(:\d+)?$")


def layer_facts(facts: ModelFacts, path: str) -> LayerFacts | None:
    """What is known of the layer of that path, or of the nearest one that holds it."""
    while path:
        found = facts.layer(path)
        if found is not None:
            return found
        path = path.rpartition("/")[0]
    return None


def matrices(table: ValueTable, facts: ModelFacts) -> NDArray[np.bool_]:
    """For each site of variables, whether it is a matrix or kernel that mixes features.

    Biases, the scales and shifts of normalisations and embeddings have ranges of their
    own, and rules about gradients and updates leave them out.
    """
    return table.fixed("matrices", lambda: _matrices(table, facts))


def _matrices(table: ValueTable, facts: ModelFacts) -> NDArray[np.bool_]:
    sizes = np.nan_to_num(table.latest("count")) if len(table) else np.zeros(len(table.sites))
    biases = {
        site.layer: size
        for site, size in zip(table.sites, sizes, strict=True)
        if site.path.rpartition("/")[2] == "bias"
    }
    found = []
    for site, size in zip(table.sites, sizes, strict=True):
        part = site.path.rpartition("/")[2]
        known = layer_facts(facts, site.layer)
        kind = (known.class_name if known is not None else None) or site.layer.rpartition("/")[2]
        is_other = (
            _NO_MATRIX.fullmatch(part) is not None
            or _NORM.search(kind) is not None
            or _EMBEDDING.search(kind) is not None
            # In torch the scale of a normalisation is called `weight` too: as long as its shift.
            or (part.startswith("weight") and 0 < size == biases.get(site.layer))
        )
        found.append(not is_other)
    return np.array(found, bool)


class LayerOrder:
    """The order in which layers are executed, as far as it is known.

    By the facts if they have it, else by the order in which the layers' outputs were
    recorded; a layer comes after those inside it.

    Example:

    >>> from gradwatch.diagnosis.network_order import LayerOrder
    >>> order = LayerOrder([], ["net/block", "net/block/a", "net/block/b", "net/head"])
    >>> sorted(["net/head", "net/block", "net/block/b", "net/block/a"], key=order.rank)
    ['net/block/a', 'net/block/b', 'net/block', 'net/head']
    """

    def __init__(self, known: Iterable[LayerFacts], paths: Sequence[str]) -> None:
        ordered = [layer.path for layer in known]
        listed = set(ordered)
        ordered += [path for path in _contents_first(paths) if path not in listed]
        self._rank = {path: i for i, path in enumerate(ordered)}
        self.paths = tuple(ordered)

    def rank(self, path: str) -> int:
        """The place of a layer; of one that is unknown, that of the layer that holds it."""
        path = _CALL.sub("", path, count=1)
        while path:
            if path in self._rank:
                return self._rank[path]
            path = path.rpartition("/")[0]
        return len(self._rank)


def _contents_first(paths: Sequence[str]) -> list[str]:
    """Paths in their order, but each after those that begin with it."""
    unique = list(dict.fromkeys(paths))
    last = {path: i for i, path in enumerate(unique)}
    for i, path in enumerate(unique):
        holder = path.rpartition("/")[0]
        while holder:
            if holder in last:
                last[holder] = max(last[holder], i)
            holder = holder.rpartition("/")[0]
    # At one place the deeper one is first: it is inside the other.
    return sorted(unique, key=lambda path: (last[path], -path.count("/")))


def order_of(facts: ModelFacts, tables: Sequence[ValueTable]) -> LayerOrder:
    """The order of execution of all layers that anything was measured of."""
    paths = [site.layer for table in tables for site in table.sites]
    return LayerOrder(facts.layers, paths)


def is_relu_like(facts: ModelFacts, site: Site) -> bool | None:
    """Whether a layer ends in an activation that can die; None if that is not known."""
    known = facts.layer(site.layer)
    if known is None or (known.activation is None and known.class_name is None):
        return None
    return known.activation in RELU_LIKE or known.class_name in RELU_LIKE


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


def moment_of(site: Site, order: LayerOrder) -> tuple[int, int, int]:
    """When in the step it is computed; smaller is earlier.

    Within the backward pass, layers come in reverse.

    Example:

    >>> from gradwatch import Kind, Site
    >>> from gradwatch.diagnosis.network_order import LayerOrder
    >>> from gradwatch.diagnosis.network_order import moment_of
    >>> order = LayerOrder([], ["a", "b"])
    >>> sites = [Site(kind, path) for kind in (Kind.OUTPUT_GRADIENT, Kind.OUTPUT) for path in "ab"]
    >>> [str(site) for site in sorted(sites, key=lambda site: moment_of(site, order))]
    ['output a', 'output b', 'output_gradient b', 'output_gradient a']
    """
    rank = order.rank(site.layer)
    if site.kind in (Kind.OUTPUT_GRADIENT, Kind.GRADIENT):
        # The gradient with respect to a layer's output comes before those of its variables.
        return PHASES[site.kind], -rank, int(site.kind is Kind.GRADIENT)
    return PHASES[site.kind], rank, 0
