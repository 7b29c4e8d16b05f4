"""Losses that jump out of their course, told as they come."""

import math
from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WINDOW = 48
"""The losses that a new one is compared with."""
LEAST = 24
"""Without so many, nothing is a jump: the first steps of a training are wild."""
DEVIATIONS = 6.0
"""Of the noise of the losses before. Noise has tails, hence so many."""
OVER_HIGHEST = 2.0
"""Times the distance of the highest loss before from the level: heavy tails show themselves."""
SMALLEST = 0.1
"""Of the level; less is not seen in a picture of the losses."""
LEAST_NOISE = 0.01
"""Of the level: losses of all data in one batch have hardly any."""


class Jump(NamedTuple):
    """A loss far above the course of those before it.

    Attributes:
        level: where the course would have been.
        noise: the standard deviation of single losses from it, by their median.
        deviations: by how many of these the loss is above; the smaller of two numbers, of the
            losses and of their logarithms.
        rarity: its deviations in those of the most deviating loss since the start, earlier jumps
            included: noise with heavy tails has had others like it.
    """

    level: float
    noise: float
    deviations: float
    rarity: float


class Jumps:
    """Compares each loss with the course of those before it.

    A jump must stand out among the losses and, where all are positive, among their logarithms: the
    losses of small batches differ by factors, and one of a network that has learned is 100 times
    another. Losses that are not finite are no part of the course.

    Example:

    >>> from gradwatch.core import Jumps
    >>> jumps = Jumps()
    >>> any(jumps.add(1.0 + 0.1 * (i % 3)) for i in range(50))
    False
    >>> round(jumps.add(9.0).level, 3)
    1.1
    """

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._highest = -math.inf
        """Of the recent ones."""
        self._most_deviations = 1.0

    def add(self, loss: float) -> Jump | None:
        """Take the next loss; returns how it jumps, if it does."""
        if not math.isfinite(loss):
            return None
        recent, jump = self._recent, None
        # Most losses are not above all others, which is known at once.
        if loss > self._highest:
            if len(recent) >= LEAST:
                jump = self._jump(np.array(recent), loss)
            self._highest = loss
            recent.append(loss)
        else:
            leaves = len(recent) == WINDOW and recent[0] == self._highest
            recent.append(loss)
            if leaves:
                self._highest = max(recent)
        return jump

    def leave(self) -> None:
        """Leave the last loss out of the course: it was a jump, and the course goes on."""
        self._recent.pop()
        self._highest = max(self._recent)

    def forget(self) -> None:
        """Another course begins."""
        self._recent.clear()
        self._highest = -math.inf

    def _jump(self, before: NDArray[np.float64], loss: float) -> Jump | None:
        level, noise = _course(before)
        deviations = (loss - level) / noise
        rarity = deviations / self._most_deviations
        self._most_deviations = max(self._most_deviations, deviations)
        least = max(OVER_HIGHEST * (self._highest - level), SMALLEST * abs(level))
        if deviations < DEVIATIONS or loss - level < least:
            return None
        if before.min() > 0:
            log_level, log_noise = _course(np.log(before), LEAST_NOISE)
            deviations = min(deviations, (math.log(loss) - log_level) / log_noise)
        return Jump(level, noise, deviations, rarity) if deviations >= DEVIATIONS else None


def _course(values: NDArray[np.float64], least_noise: float = 0.0) -> tuple[float, float]:
    """Where a course with a steady slope would go on, and the noise around it."""
    half = values.size // 2
    first, last = float(np.median(values[:half])), float(np.median(values[-half:]))
    slope = (last - first) / (values.size - half)
    places = np.arange(values.size) - (values.size - 1 - (half - 1) / 2)
    noise = 1.4826 * float(np.median(np.abs(values - last - slope * places)))
    # A falling loss falls ever slower.
    level = max(last + slope * (half + 1) / 2, float(values.min()))
    return level, max(noise, least_noise or LEAST_NOISE * abs(level), 1e-30)
