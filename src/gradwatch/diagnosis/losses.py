"""How the loss has gone so far: its level at the start and now, robustly."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_FIRST = 5
_MOST = 1 << 16


class Losses:
    """The losses of steps, oldest first; what follows from them is worked out once a step.

    Levels are medians over several steps, as the loss of a batch is noisy.

    Args:
        pool: of so many steps in a row the mean is taken as one loss: with batches of a
            few samples, single losses say nothing. 0 to keep only the newest one.

    Example:

    >>> from gradwatch.diagnosis.losses import Losses
    >>> losses = Losses()
    >>> for step in range(1, 41):
    ...     losses.add(step, 2.0 if step < 20 else 1.0)
    >>> losses.initial, losses.recent, losses.improvement
    (2.0, 1.0, 0.5)
    """

    def __init__(self, pool: int = 1) -> None:
        self.latest = math.nan
        """The newest loss by itself; NaN if there is none."""
        self.latest_step = 0
        self._pool = pool
        self._pooled: list[float] = []
        self._steps = np.empty(64, np.int64)
        self._values = np.empty(64, np.float64)
        self._first: list[float] = []
        self._size = 0
        self._forgotten = 0

    def add(self, step: int, value: float) -> None:
        """Take the loss of a step; a step that is known already is not counted twice."""
        if step <= self.latest_step:
            return
        self.latest, self.latest_step = value, step
        if not self._pool:
            return
        self._pooled.append(value)
        if len(self._pooled) < self._pool:
            return
        value = math.fsum(self._pooled) / self._pool if self._pool > 1 else value
        self._pooled = []
        if self._size == _MOST:
            # What it was at the start is kept in `initial`.
            half = _MOST // 2
            self._steps[:half], self._values[:half] = self._steps[half:], self._values[half:]
            self._size, self._forgotten = half, self._forgotten + half
        if self._size == self._steps.size:
            self._steps = np.resize(self._steps, 2 * self._size)
            self._values = np.resize(self._values, 2 * self._size)
        self._steps[self._size], self._values[self._size] = step, value
        self._size += 1
        if len(self._first) < _FIRST and math.isfinite(value):
            self._first.append(value)
        for name in _CACHED:
            self.__dict__.pop(name, None)

    def __len__(self) -> int:
        return self._forgotten + self._size

    @property
    def steps(self) -> NDArray[np.int64]:
        """The steps of which the loss is known."""
        return self._steps[: self._size]

    @property
    def values(self) -> Array:
        """Their losses; NaN or infinite where they were."""
        return self._values[: self._size]

    def last(self, count: int) -> Array:
        """The newest losses, at most so many."""
        return self.values[-count:]

    @cached_property
    def initial(self) -> float:
        """The level at the start: the median of the first five; NaN if there is none."""
        return _median(np.array(self._first))

    @cached_property
    def recent(self) -> float:
        """The level now: the median of the last fifth, at least five; NaN if there is none."""
        window = self.last(min(max(self._size // 5, _FIRST), 50))
        return _median(window)

    @cached_property
    def best(self) -> float:
        """The lowest level that five losses in a row have had; NaN if there are not so many."""
        if self._size < _FIRST:
            return math.nan
        # Over the last thousand at most, so that the cost does not grow with the run.
        window = self.last(1000)
        rows = np.lib.stride_tricks.sliding_window_view(window, _FIRST)[:: max(1, _FIRST // 2)]
        # The mean will do: a single high loss only makes the level look worse.
        means = rows.mean(1)
        means = means[np.isfinite(means)]
        return float(means.min()) if means.size else math.nan

    @cached_property
    def improvement(self) -> float:
        """By what share of its initial level it has fallen; negative if it has risen.

        NaN while fewer than ten losses are known.
        """
        if len(self) < 2 * _FIRST or not self.initial:
            return math.nan
        return (self.initial - self.recent) / abs(self.initial)

    @cached_property
    def is_noise(self) -> bool:
        """Whether the difference between the start and now is what single batches differ by."""
        first = np.array(self._first)
        last = self.last(min(max(self._size // 5, _FIRST), 50))
        if first.size < _FIRST or not np.isfinite(last).all():
            return False
        error = math.sqrt(first.var(ddof=1) / first.size + last.var(ddof=1) / last.size)
        return bool(abs(first.mean() - last.mean()) < _SIGNIFICANT * error)


_CACHED = ("initial", "recent", "best", "improvement", "is_noise")
_SIGNIFICANT = 2.0
"""Standard errors; with five losses a side, noise alone exceeds them one time in ten."""


def _median(values: Array) -> float:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return math.nan
    # Of so few, quicker than numpy.median.
    ordered = np.sort(finite)
    middle = finite.size // 2
    return float(ordered[middle] + ordered[~middle]) / 2.0
