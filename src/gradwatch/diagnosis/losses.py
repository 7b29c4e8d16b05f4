"""The course of the loss: robust levels at the start and now."""

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradwatch.diagnosis.spikes import Spikes
from gradwatch.diagnosis.value_table import Array

_FIRST = 5
_CAPACITY = 1 << 16
_SHORT = 5
"""Losses of a spike, from which on it is no longer short."""
_BLOW_UP = 3.0
"""Times the first loss; batches differ by less."""


class Losses:
    """The losses of steps, oldest first, and their levels.

    Levels are medians over several steps, because the loss of a batch is noisy. `pool` consecutive
    losses are averaged into one, because the loss of a few samples says little; 0 keeps only the
    newest loss. `latest` is not averaged; NaN if there is none. Neither are the losses that
    `spikes` are found in. In the place of a short spike, the losses have the level before it: odd
    batches say nothing about the course.
    """

    def __init__(self, pool: int = 1) -> None:
        self.latest = math.nan
        self.latest_step = 0
        self.spikes = Spikes()
        self._pool = pool
        self._pooled: list[float] = []
        self._steps = np.empty(_CAPACITY, np.int64)
        self._values = np.empty(_CAPACITY, np.float64)
        self._first: list[float] = []
        self._size = 0
        self._forgotten = 0

    def add(self, step: int, value: float) -> None:
        """Add the loss of a step; a step that is known already is ignored."""
        if step <= self.latest_step:
            return
        self.latest, self.latest_step = value, step
        if self._pool:
            self._keep(step, self._without_spike(step, value))

    def pool_by(self, count: int) -> None:
        """Average so many consecutive losses into one, also those that are known already."""
        if self._pool != 1 or count <= 1 or self._forgotten:
            return
        known = list(zip(self.steps.tolist(), self.values.tolist(), strict=True))
        self._pool, self._size, self._first = count, 0, []
        for step, value in known:
            self._keep(step, value)

    def _keep(self, step: int, value: float) -> None:
        self._pooled.append(value)
        if len(self._pooled) < self._pool:
            return
        value = math.fsum(self._pooled) / self._pool if self._pool > 1 else value
        self._pooled = []
        if self._size == _CAPACITY:
            # `initial` keeps the level at the start.
            half = _CAPACITY // 2
            self._steps[:half], self._values[:half] = self._steps[half:], self._values[half:]
            self._size, self._forgotten = half, self._forgotten + half
        self._steps[self._size], self._values[self._size] = step, value
        self._size += 1
        if len(self._first) < _FIRST and math.isfinite(value):
            self._first.append(value)
        for name in ("initial", "recent"):
            self.__dict__.pop(name, None)

    def _without_spike(self, step: int, value: float) -> float:
        """The loss, or the level before a spike that may be short."""
        self.spikes.add(step, value)
        spike = self.spikes.open
        if spike is None:
            return value
        if len(spike.losses) < _SHORT:
            return spike.jump.level
        if len(spike.losses) == _SHORT and self._pool == 1:
            # It is not: it is the course.
            self._values[self._size - _SHORT + 1 : self._size] = spike.losses[:-1]
        return value

    def __len__(self) -> int:
        return self._forgotten + self._size

    @property
    def steps(self) -> NDArray[np.int64]:
        """The steps with a known loss."""
        return self._steps[: self._size]

    @property
    def values(self) -> Array:
        """Their losses; some may be NaN or infinite."""
        return self._values[: self._size]

    def last(self, count: int) -> Array:
        """The newest losses, at most `count`."""
        return self.values[-count:]

    @property
    def has_single(self) -> bool:
        """Whether each is the loss of one step."""
        return self._pool == 1

    @cached_property
    def initial(self) -> float:
        """The level at the start: the median of the first five; NaN if there are none.

        If the loss has blown up within these, it is the first one.
        """
        level = median(np.array(self._first))
        has_blown_up = bool(self._first) and level > _BLOW_UP * self._first[0] > 0
        return self._first[0] if has_blown_up else level

    @cached_property
    def recent(self) -> float:
        """The level now: the median of the last fifth, at least five; NaN if there are none."""
        window = self.window()
        return median(window[np.isfinite(window)])

    @property
    def lowest(self) -> float:
        """The lowest level that it has had for a fiftieth of its course, at least ten losses."""
        length = max(self._size // 50, 10)
        parts = self.values[: self._size // length * length].reshape(-1, length)
        parts = parts[np.isfinite(parts).all(axis=1)]
        return float(np.median(parts, axis=1).min(initial=math.inf))

    @property
    def first(self) -> Array:
        """The first five that are finite."""
        return np.array(self._first)

    def window(self) -> Array:
        """The last fifth, at least five and at most fifty: what `recent` is the median of."""
        return self.last(min(max(self._size // 5, _FIRST), 50))


def median(values: Array) -> float:
    """The median; NaN without values. For a few values, faster than `numpy.median`."""
    if not values.size:
        return math.nan
    ordered = np.sort(values)
    middle = values.size // 2
    return float(ordered[middle] + ordered[~middle]) / 2.0
