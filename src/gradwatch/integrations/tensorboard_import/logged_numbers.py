"""Numbers in the order logged, grouped into readings."""

from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, Reading, Site, Summary

SAME_READING = 1.0
"""Numbers of one step that were logged within so many seconds are one reading."""


class LoggedNumbers:
    """Collects logged numbers, 28 bytes each; their paths begin with `group`."""

    def __init__(self, group: str = "") -> None:
        self.group = group
        self._tags: dict[str, int] = {}
        self._tag, self._step = array("i"), array("q")
        self._time, self._value = array("d"), array("d")
        self.replaced = 0
        """How many numbers `readings` left out for a later one of the same tag and step."""

    @property
    def paths(self) -> list[str]:
        return [f"{self.group}/{tag}" if self.group else tag for tag in self._tags]

    def add(self, tag: str, step: int, time: float, value: float) -> None:
        """Add a number; it replaces an earlier one of the same tag and step."""
        self._tag.append(self._tags.setdefault(tag, len(self._tags)))
        self._step.append(step)
        self._time.append(time)
        self._value.append(value)

    def readings(self) -> Iterator[Reading]:
        """All numbers by step, each reading at the time of its last number.

        Event files have no epochs: the epoch is 0.
        """
        sites = [Site(Kind.SCALAR, path) for path in self.paths]
        tag, step = np.array(self._tag, np.int64), np.array(self._step, np.int64)
        time, value = np.array(self._time), np.array(self._value)
        order = _latest(tag, step)
        self.replaced = len(tag) - len(order)
        order = order[np.lexsort((tag[order], time[order], step[order]))]
        tag, step, time, summaries = tag[order], step[order], time[order], summarize(value[order])
        start = 0
        for end in _ends(step.tolist(), time.tolist()):
            chosen = slice(start, end)
            yield Reading(
                int(step[start]),
                0,
                float(time[end - 1]),
                [sites[i] for i in tag[chosen].tolist()],
                summaries[chosen],
                group=self.group,
            )
            start = end


def summarize(values: NDArray[np.float64]) -> Summary:
    """The summary of each number."""
    is_finite = np.isfinite(values)
    number = np.where(is_finite, values, 0.0)
    with np.errstate(over="ignore"):
        square = number * number
    return Summary(
        count=np.ones_like(values),
        nan=np.isnan(values).astype(np.float64),
        posinf=(values == np.inf).astype(np.float64),
        neginf=(values == -np.inf).astype(np.float64),
        zeros=(values == 0.0).astype(np.float64),
        sum=number,
        sum_abs=np.abs(number),
        sum_squares=square,
        min=np.where(is_finite, values, np.inf),
        max=np.where(is_finite, values, -np.inf),
    )


def _latest(tag: NDArray[np.int64], step: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions of the numbers that no later one of the same tag and step replaces."""
    order = np.lexsort((np.arange(len(tag)), step, tag))
    same = (np.diff(tag[order]) == 0) & (np.diff(step[order]) == 0)
    return np.sort(order[np.append(~same, True)]) if len(order) else order


def _ends(steps: list[int], times: list[float]) -> Iterator[int]:
    """Where each reading ends: at another step, or `SAME_READING` seconds after its start."""
    start = 0
    for i in range(1, len(steps)):
        if steps[i] != steps[start] or not times[i] - times[start] <= SAME_READING:
            yield i
            start = i
    if steps:
        yield len(steps)
