"""Recovers the losses of single steps from the running means that Keras reports."""

import math
from collections.abc import Iterable

from gradwatch.core import ReportedLoss

_REMEMBERED = 256
_TOLERANCE = 1e-3


def is_report_missing(
    last: ReportedLoss | None, reports: Iterable[ReportedLoss], step: int
) -> bool:
    """Whether the report of a step before `step` has not arrived yet.

    Nothing is missing if nothing was ever reported. `last` is the newest report that was processed,
    and `reports` are those that have arrived since, in the order of their steps.
    """
    known, stride = (None, 1) if last is None else (last.step, last.stride)
    for each in reports:
        # When an epoch begins, all reports of the previous ones have arrived.
        before_epoch = each.step - each.count
        known = before_epoch if known is None else max(known, before_epoch)
        stride = each.stride
        if each.step > known + stride:
            break
        known = each.step
    return known is not None and known + stride < step


class StepLosses:
    """Recovers step losses from the mean over the epoch so far, which Keras reports.

    The loss of a step is the difference of two sums. The reported number may be something else
    than such a mean: no loss is returned until one agrees with a measured loss. A mean that is
    not finite is returned at once, and only once.
    """

    def __init__(self) -> None:
        self._count = 0
        self._mean = 0.0
        self._is_broken = False
        self._agreed = self._disagreed = 0
        self._recovered: dict[int, float] = {}
        self._measured: dict[int, float] = {}

    def is_next(self, count: int, stride: int = 1) -> bool:
        """Whether a report follows the previous one directly."""
        return count <= max(stride, 1) or count == self._count + stride

    def add_mean(self, step: int, count: int, mean: float) -> float | None:
        """Add the mean of the first `count` steps of an epoch; returns the loss of its last step.

        None if that is unknown. Within an epoch, reports come in the order of the steps.
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
        # The mean of a single step is its loss, whatever is reported: it proves nothing.
        if self._count:
            _remember(self._recovered, step, loss)
            if step in self._measured:
                self._compare(loss, self._measured[step])
        self._count, self._mean = count, mean
        return loss if self._agreed > self._disagreed else None

    def add_measured(self, step: int, loss: float) -> None:
        """Add a measured loss, to compare the recovered ones with."""
        _remember(self._measured, step, loss)
        if step in self._recovered:
            self._compare(self._recovered[step], loss)

    def _compare(self, recovered: float, loss: float) -> None:
        # The precision of a single loss that is left in a float32 sum of many.
        rounding = 1e-6 * self._count * abs(self._mean)
        if abs(recovered - loss) <= _TOLERANCE * abs(loss) + rounding:
            self._agreed += 1
        else:
            self._disagreed += 1


def _remember(values: dict[int, float], step: int, value: float) -> None:
    values[step] = value
    if len(values) > _REMEMBERED:
        del values[next(iter(values))]
