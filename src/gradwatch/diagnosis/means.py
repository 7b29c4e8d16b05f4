"""The losses of single steps, told from the running means that a training reports."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gradwatch.core import ReportedLoss

_REMEMBERED = 256
_TOLERANCE = 1e-3


def is_one_missing(last: ReportedLoss | None, reports: Iterable[ReportedLoss], step: int) -> bool:
    """Whether a report of a step before that one is still on its way.

    Nothing is missing where nothing was ever reported.

    Args:
        last: the newest report that was taken; None if there is none.
        reports: those that have come since, in the order of the steps.
        step: the one before which none is to be missing.

    Example:

    >>> from gradwatch.core import ReportedLoss
    >>> from gradwatch.diagnosis.means import is_one_missing
    >>> first, third = ReportedLoss(1, 1, 0.5), ReportedLoss(3, 3, 0.25)
    >>> is_one_missing(first, [third], 4), is_one_missing(first, [third], 2)
    (True, False)
    """
    known, stride = (None, 1) if last is None else (last.step, last.stride)
    for each in reports:
        # What was reported of the epochs before has all come when one begins.
        before_epoch = each.step - each.count
        known = before_epoch if known is None else max(known, before_epoch)
        stride = each.stride
        if each.step > known + stride:
            break
        known = each.step
    return known is not None and known + stride < step


class MeanLosses:
    """Undoes the mean over an epoch's steps so far, which is what Keras reports as the loss.

    The loss of a step is then the difference of two sums. Whether what is reported is such
    a mean at all is not taken for granted: nothing is said until it agrees with losses that
    were measured. That a mean is not finite is said at once, and once.

    Example:

    >>> from gradwatch.diagnosis.means import MeanLosses
    >>> losses = MeanLosses()
    >>> losses.take(1, 1, 4.0), losses.take(2, 2, 3.0)
    (None, None)
    >>> losses.check(2, 2.0)
    >>> losses.take(3, 3, 2.5)
    1.5
    """

    def __init__(self) -> None:
        self._count = 0
        self._mean = 0.0
        self._is_broken = False
        self._agreed = self._disagreed = 0
        self._told: dict[int, float] = {}
        self._known: dict[int, float] = {}

    def is_next(self, count: int, stride: int = 1) -> bool:
        """Whether a report is the one that follows the last one taken."""
        return count <= max(stride, 1) or count == self._count + stride

    def take(self, step: int, count: int, mean: float) -> float | None:
        """The loss of a step; None if it cannot be told.

        Args:
            step: the number of the step.
            count: how many steps of the epoch the mean is over.
            mean: what was reported. Of the same epoch, in the order of the steps.
        """
        if count <= self._count:  # An epoch begins.
            self._count, self._mean, self._is_broken = 0, 0.0, False
        if not math.isfinite(mean):
            was_broken, self._is_broken = self._is_broken, True
            self._count = count
            return None if was_broken else mean
        if self._is_broken:
            return None
        loss = (mean * count - self._mean * self._count) / (count - self._count)
        # A single step's mean is its loss, whatever is reported.
        if self._count:
            _remember(self._told, step, loss)
            if step in self._known:
                self._compare(loss, self._known[step])
        self._count, self._mean = count, mean
        return loss if self._agreed > self._disagreed else None

    def check(self, step: int, loss: float) -> None:
        """Compare with a loss that was measured."""
        _remember(self._known, step, loss)
        if step in self._told:
            self._compare(self._told[step], loss)

    def _compare(self, told: float, loss: float) -> None:
        # Sums of many steps in float32 leave that much of a single one.
        rounding = 1e-6 * self._count * abs(self._mean)
        if abs(told - loss) <= _TOLERANCE * abs(loss) + rounding:
            self._agreed += 1
        else:
            self._disagreed += 1


def _remember(values: dict[int, float], step: int, value: float) -> None:
    values[step] = value
    if len(values) > _REMEMBERED:
        del values[next(iter(values))]
