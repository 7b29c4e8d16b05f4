"""Which layers of two runs are the same, where names alone do not say so."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from gradwatch.read.layer_names import NamedLayer, counted_alike


class MatchedBy(StrEnum):
    """What says that two sites of different runs are the same."""

    PATH = "path"
    """They have the same path."""
    NAME = "name"
    """They have the same path without the model's name and without counters."""
    SHAPE = "shape"
    """They have the same position in the network, and the same shape."""


Pairs = dict[str, tuple[str, MatchedBy]]
"""By path of the first run's layer: the other run's, and what says that they are the same."""

# What speaks for a pair. A name that the user has given outweighs all else. A counter weighs less
# than the shape: in a network with one more layer, `dense_3` may be another layer.
_GIVEN, _NAME, _SHAPE, _PATH, _SIZES, _PLACE = 100_000, 40, 40, 10, 9, 4
_SHAPE_ALONE, _CLASS_ALONE, _CLASS = 30, 10, 5
_MOST_CELLS = 9_000_000
"""Longer networks are aligned by the order of equal names only."""


def align(first: Sequence[NamedLayer], other: Sequence[NamedLayer]) -> Pairs:
    """The layers of two runs that are the same.

    Pairs follow the order of the network, and of all such pairings the one is taken for which
    names and shapes speak most. Then those with equal paths or names are paired in any order.
    """
    first, other = counted_alike(first, other)
    if [layer.path for layer in first] == [layer.path for layer in other]:
        return {layer.path: (layer.path, MatchedBy.PATH) for layer in first}
    pairs = dict(_in_order(first, other))
    for key in (lambda each: each.path, lambda each: each.name):
        taken = {theirs for theirs, _ in pairs.values()}
        left = _unique([each for each in first if each.path not in pairs], key)
        right = _unique([each for each in other if each.path not in taken], key)
        for shared in left.keys() & right.keys():
            pairs[left[shared].path] = _pair(left[shared], right[shared])
    return pairs


def _pair(a: NamedLayer, b: NamedLayer) -> tuple[str, MatchedBy]:
    by = MatchedBy.NAME if a.name == b.name else MatchedBy.SHAPE
    return b.path, MatchedBy.PATH if a.path == b.path else by


def _unique(
    layers: Sequence[NamedLayer], key: Callable[[NamedLayer], str]
) -> dict[str, NamedLayer]:
    """The layers by their keys, without those that share one."""
    counts = Counter(map(key, layers))
    return {key(layer): layer for layer in layers if counts[key(layer)] == 1}


def _in_order(
    first: Sequence[NamedLayer], other: Sequence[NamedLayer]
) -> list[tuple[str, tuple[str, MatchedBy]]]:
    """The pairing that keeps the order and for which most speaks."""
    if len(first) * len(other) > _MOST_CELLS:
        return _by_order_of_names(first, other)
    scores = _scores(first, other)
    best = np.zeros((len(first) + 1, len(other) + 1), np.int32)
    for i, row in enumerate(scores):
        best[i + 1, 1:] = np.maximum(best[i, 1:], best[i, :-1] + row)
        best[i + 1] = np.maximum.accumulate(best[i + 1])
    found, i, j = [], len(first), len(other)
    while i and j:
        # Of equally good pairings the one of the earliest layers.
        if best[i, j] == best[i - 1, j]:
            i -= 1
        elif best[i, j] == best[i, j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            found.append((first[i].path, _pair(first[i], other[j])))
    return found


def _scores(first: Sequence[NamedLayer], other: Sequence[NamedLayer]) -> NDArray[np.int32]:
    """How much speaks for each pair; 0 for those that cannot be the same."""

    def equal(fact: Callable[[NamedLayer], Hashable]) -> NDArray[np.bool_]:
        numbers: dict[Hashable, int] = {}
        a, b = (
            np.array([numbers.setdefault(fact(each), len(numbers)) for each in run], np.int32)
            for run in (first, other)
        )
        # What is not known is equal to nothing.
        return np.asarray((a[:, None] == b[None, :]) & (a != numbers.get(None, -1))[:, None])

    path, name = equal(lambda each: each.path), equal(lambda each: each.name)
    shape = equal(lambda each: each.shapes or None)
    given = equal(lambda each: None if each.is_counted else each.name)
    class_ = equal(lambda each: each.class_name or None)
    bare = equal(lambda each: None if each.shapes else True)
    scores = np.where(name, _NAME + _SHAPE * shape + _PATH * path + _GIVEN * given, 0)
    scores += (~name & shape) * (_SHAPE_ALONE + _CLASS * class_)
    scores += (~name & bare & class_) * _CLASS_ALONE
    for i, j in np.argwhere(name & ~shape & ~bare)[:100_000].tolist():
        apart = abs(i / max(1, len(first) - 1) - j / max(1, len(other) - 1))
        scores[i, j] += round(_SIZES * _shared_sizes(first[i], other[j]) + _PLACE * (1 - apart))
    return scores.astype(np.int32)


def _shared_sizes(a: NamedLayer, b: NamedLayer) -> float:
    """The share of sizes that two layers have in common: the first and the last layer of networks
    of different widths share their inputs and outputs."""
    ours, theirs = (Counter(size for shape in each.shapes for size in shape) for each in (a, b))
    return (ours & theirs).total() / max(1, ours.total(), theirs.total())


def _by_order_of_names(
    first: Sequence[NamedLayer], other: Sequence[NamedLayer]
) -> list[tuple[str, tuple[str, MatchedBy]]]:
    waiting: dict[tuple[Hashable, ...], list[NamedLayer]] = {}
    for layer in reversed(other):
        waiting.setdefault((layer.name, layer.shapes), []).append(layer)
    found = []
    for layer in first:
        if same := waiting.get((layer.name, layer.shapes)):
            found.append((layer.path, _pair(layer, same.pop())))
    return found
