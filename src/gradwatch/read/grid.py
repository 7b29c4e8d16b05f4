"""Merging over steps: columns of steps, and cells of rows by columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Site
from gradwatch.read.database import Columns

Values = NDArray[np.float64]

FIRST, LAST = "first", "last"
"""Beside the fields of a summary: the first and the last measured step of a cell."""

_MERGE = {"min": "min", "max": "max", FIRST: "min", LAST: "max"}


@dataclass(frozen=True)
class Bucketing:
    """Which column a step falls into: `(step - origin) * columns // span`.

    >>> import numpy as np
    >>> from gradwatch.read.grid import Bucketing
    >>> Bucketing(span=10).of(np.array([1, 9, 10, 25]))
    array([0, 0, 1, 2])
    >>> Bucketing(origin=1, columns=4, span=100).of(np.array([1, 50, 100]))
    array([0, 1, 3])
    """

    span: int
    origin: int = 0
    columns: int = 1

    def of(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """The columns' numbers."""
        return (steps - self.origin) * self.columns // self.span

    def sql(self) -> str:
        """The same in SQL."""
        return f"(step - {self.origin}) * {self.columns} // {self.span}"


def merges(fields: Sequence[str], number: str = "") -> str:
    """How fields of rows are merged, in SQL; averaged over a number of them, if it is given."""
    over = f" / {number}" if number else ""
    return ", ".join(
        f"{_MERGE[f]}({f})::DOUBLE AS {f}" if f in _MERGE else f"(sum({f}){over})::DOUBLE AS {f}"
        for f in fields
    )


def places(
    sites_of: Mapping[str, Sequence[Site | None]],
    place: Mapping[Site, int],
    writers: NDArray[Any],
    numbers: NDArray[Any],
) -> NDArray[np.int64]:
    """The place of the site of each row; -1 for one that has none.

    Args:
        sites_of: by writer, the site of each of its numbers.
        place: of the sites.
        writers, numbers: of each row; with a single writer, its name is not looked at.
    """
    found = np.full(numbers.size, -1, np.int64)
    for at, writer in _by_writer(list(sites_of), writers):
        sites = sites_of[writer]
        own = np.array([-1 if s is None else place.get(s, -1) for s in sites], np.int64)
        known = at[numbers[at] < own.size]
        found[known] = own[numbers[known]]
    return found


def _by_writer(
    names: Sequence[str], writers: NDArray[Any]
) -> Iterator[tuple[NDArray[np.int64], str]]:
    """Which rows are of each writer."""
    if len(names) == 1:
        yield np.arange(writers.size), names[0]
        return
    number_of = {name: i for i, name in enumerate(names)}
    # Each row is looked up once, and not compared with each of a thousand names.
    number = np.array([number_of.get(name, -1) for name in writers.tolist()], np.int64)
    order = np.argsort(number, kind="stable")
    ends = np.searchsorted(number[order], np.arange(len(names) + 1))
    for i, name in enumerate(names):
        if ends[i] < ends[i + 1]:
            yield order[ends[i] : ends[i + 1]], name


def joined(parts: Sequence[Columns]) -> Columns:
    """The rows of several answers, one below the other."""
    filled = [part for part in parts if part]
    if len(filled) == 1:
        return filled[0]
    return {name: np.concatenate([part[name] for part in filled]) for name in filled[0]}


def dense(
    found: Columns, rows: int, fields: Sequence[str], buckets: NDArray[np.int64]
) -> dict[str, Values]:
    """What was found for cells, as arrays of rows by buckets: `steps` and each field."""
    shape = rows, buckets.size
    column = np.searchsorted(buckets, found["bucket"])
    # A journal may have been read on since the buckets were chosen.
    known = np.isin(found["bucket"], buckets)
    cell = found["row"][known] * buckets.size + column[known]
    filled = {}
    for name in ("steps", *fields):
        values = found[name][known]
        if name in _MERGE:
            lowest = _MERGE[name] == "min"
            flat = np.full(shape[0] * shape[1], np.inf if lowest else -np.inf)
            (np.minimum if lowest else np.maximum).at(flat, cell, values)
        else:
            flat = np.bincount(cell, values, shape[0] * shape[1])
        filled[name] = flat.reshape(shape)
    return filled
