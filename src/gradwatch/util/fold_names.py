"""Many names in few rows: the parts of a block together, and neighbouring blocks as a range."""

import re
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

# A name can be cut after a component of its path, or a number that ends a word: `block_0_norm`.
_CUT = re.compile(r"(?=/)|(?<=\d)(?=[_.\-])")
_NUMBER = re.compile(r"\d+")
MAX_ROWS = 20
"""So many layers are shown one by one."""


class NameFold(NamedTuple):
    """Names that share a row, by their indices."""

    label: str
    members: list[int]

    def part(self, name: str) -> str:
        """A member's name without what the label says."""
        return name.removeprefix(self.label).lstrip("/_.-") or name


def fold_names(names: Sequence[str], most: int) -> list[NameFold]:
    """The names in at most so many rows, in their order.

    >>> from gradwatch.util.fold_names import fold_names
    >>> names = [f"block_{i}_{part}" for i in range(4) for part in ("norm", "mix")] + ["head"]
    >>> [fold.label for fold in fold_names(names, 5)]
    ['block_0', 'block_1', 'block_2', 'block_3', 'head']
    >>> [fold.label for fold in fold_names(names, 3)]
    ['block_0 … block_1', 'block_2 … block_3', 'head']
    """
    cuts = [[m.start() for m in _CUT.finditer(name)] for name in names]
    finer = _grouped(names, names)
    for depth in range(max(map(len, cuts), default=0), 0, -1):
        if len(finer) <= most:
            return finer
        coarser = _grouped(names, [_cut(*each, depth) for each in zip(names, cuts, strict=True)])
        if len(coarser) <= most and 2 * len(coarser) < most:
            # So few rows would hide how the network differs from its beginning to its end.
            return _ranges(finer, most)
        finer = coarser
    return finer if len(finer) <= most else _ranges(finer, most)


def _cut(name: str, cuts: Sequence[int], depth: int) -> str:
    """The name up to its last cut but those deeper than `depth`; whole if it has fewer."""
    return name[: cuts[depth - 1]] if depth <= len(cuts) else name


def _grouped(names: Sequence[str], keys: Sequence[str]) -> list[NameFold]:
    groups: dict[str, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    # A group of one has its own name.
    return [NameFold(key if len(own) > 1 else names[own[0]], own) for key, own in groups.items()]


def _ranges(folds: Sequence[NameFold], most: int) -> list[NameFold]:
    """Neighbours joined by so many that they fit; not the first and the last, if there is room.

    Only those whose labels differ in nothing but numbers are joined, if that is enough.
    """
    if most > 3:
        return [folds[0], *_ranges_of(folds[1:-1], most - 2), folds[-1]]
    return _ranges_of(folds, most)


def _ranges_of(folds: Sequence[NameFold], most: int) -> list[NameFold]:
    alike: list[list[NameFold]] = []
    for fold in folds:
        if alike and _template(alike[-1][0].label) == _template(fold.label):
            alike[-1].append(fold)
        else:
            alike.append([fold])
    runs = alike if len(alike) <= most else [list(folds)]
    size = next(n for n in count(2) if sum(-(-len(run) // n) for run in runs) <= most)
    return [_joined(run[i : i + size]) for run in runs for i in range(0, len(run), size)]


def _joined(chunk: Sequence[NameFold]) -> NameFold:
    first, last = chunk[0].label, chunk[-1].label
    if len(chunk) == 1:
        return chunk[0]
    # The folder that both are in is named once: `encoder/layer/0 … 3`.
    folder = first.rpartition("/")[0]
    if folder and last.rpartition("/")[0] == folder:
        last = last.removeprefix(f"{folder}/")
    return NameFold(f"{first} … {last}", [i for fold in chunk for i in fold.members])


def _template(label: str) -> str:
    return _NUMBER.sub("0", label)
