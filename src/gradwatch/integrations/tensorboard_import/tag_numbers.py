"""Numbers in the order logged, and the readings that they make."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import FIELDS, Kind, Reading, Site, Summary

TOGETHER = 1.0
"""Seconds: what was logged at one step within them is one reading."""


class Numbers:
    """Gathers logged numbers, 28 bytes each.

    Args:
        group: the part of the training that they are of; their paths begin with it.

    Example:

    >>> from gradwatch.integrations.tensorboard_import.tag_numbers import Numbers
    >>> numbers = Numbers("train")
    >>> numbers.add("loss", step=2, time=7.0, value=0.5)
    >>> numbers.add("loss", step=1, time=6.0, value=0.75)
    >>> [(r.step, r.numbers(r.sites[0].kind)) for r in numbers.readings()]
    [(1, {'train/loss': 0.75}), (2, {'train/loss': 0.5})]
    """

    def __init__(self, group: str = "") -> None:
        self.group = group
        self._sites: dict[str, int] = {}
        self._site, self._step = array("i"), array("q")
        self._time, self._value = array("d"), array("d")
        self.repeated = 0
        """How many numbers a later one of the same tag and step has replaced in `readings`."""

    def __len__(self) -> int:
        return len(self._site)

    @property
    def paths(self) -> set[str]:
        """The paths of the series that they make."""
        return {self._path(tag) for tag in self._sites}

    def add(self, tag: str, step: int, time: float, value: float) -> None:
        """Take one; a later one of the same tag and step replaces it."""
        self._site.append(self._sites.setdefault(tag, len(self._sites)))
        self._step.append(step)
        self._time.append(time)
        self._value.append(value)

    def readings(self) -> Iterator[Reading]:
        """All of them, by step.

        What was logged at one step within a second is one reading, at the time of the
        last of it. Other tools do not say which epoch it was: that is 0.
        """
        sites = [Site(Kind.SCALAR, self._path(tag)) for tag in self._sites]
        site, step = np.array(self._site, np.int64), np.array(self._step, np.int64)
        time, value = np.array(self._time), np.array(self._value)
        order = _newest(site, step)
        self.repeated = len(site) - len(order)
        order = order[np.lexsort((site[order], time[order], step[order]))]
        site, step, time, rows = site[order], step[order], time[order], packed(value[order])
        start = 0
        for end in _ends(step, time):
            chosen = slice(start, end)
            yield Reading(
                int(step[start]),
                0,
                float(time[end - 1]),
                [sites[i] for i in site[chosen].tolist()],
                Summary.unpack(rows[chosen]),
                group=self.group,
            )
            start = end

    def _path(self, tag: str) -> str:
        return f"{self.group}/{tag}" if self.group else tag


def packed(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The packed summary of each number."""
    finite = np.isfinite(values)
    number = np.where(finite, values, 0.0)
    with np.errstate(over="ignore"):
        square = number * number
    columns = {
        "count": np.ones_like(values),
        "nan": np.isnan(values),
        "posinf": values == np.inf,
        "neginf": values == -np.inf,
        "zeros": values == 0.0,
        "sum": number,
        "sum_abs": np.abs(number),
        "sum_squares": square,
        "min": np.where(finite, values, np.inf),
        "max": np.where(finite, values, -np.inf),
    }
    return np.stack([columns[name].astype(np.float64) for name in FIELDS], axis=-1)


def _newest(site: NDArray[np.int64], step: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions of the numbers that no later one of the same site and step replaces."""
    order = np.lexsort((np.arange(len(site)), step, site))
    same = (np.diff(site[order]) == 0) & (np.diff(step[order]) == 0)
    return np.sort(order[np.append(~same, True)]) if len(order) else order


def _ends(step: NDArray[np.int64], time: NDArray[np.float64]) -> Iterator[int]:
    """Where each reading ends: at another step, or more than a second after it began."""
    steps, times = step.tolist(), time.tolist()
    start = 0
    for i in range(1, len(steps)):
        if steps[i] != steps[start] or not times[i] - times[start] <= TOGETHER:
            yield i
            start = i
    if steps:
        yield len(steps)
