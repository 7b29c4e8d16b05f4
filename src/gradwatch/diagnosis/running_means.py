"""Recovers the losses of single steps from the running means that Keras reports."""

import math

_REMEMBERED = 256
_TOLERANCE = 1e-3


class StepLosses:
    """Recovers step losses from the mean over the epoch so far, which Keras reports.

    The loss of a step is the difference of two sums. The reported number may be something else
    than such a mean: no loss is returned until one agrees with a measured loss. A mean that is
    not finite is returned at once, and only once.
    """

    def __init__(self) -> None:
        self._step: int | None = None
        """The last step that was reported."""
        self._epoch: int | None = None
        self._before: int | None = None
        """The last step before the epoch."""
        self._count = 0
        self._mean = 0.0
        self._is_broken = False
        self._agreed = self._disagreed = 0
        self._recovered: dict[int, float] = {}
        self._measured: dict[int, float] = {}

    def begin(self, step: int) -> None:
        """A `fit` begins with this step, and with it an epoch."""
        self._epoch, self._before = None, step - 1

    def add_mean(self, step: int, epoch: int, mean: float) -> float | None:
        """Add the mean over an epoch up to a step; returns the loss of that step.

        None if that is unknown. Reports come in the order of the steps.
        """
        if epoch != self._epoch:
            self._before = self._before if self._epoch is None else self._step
            self._epoch = epoch
            self._count, self._mean, self._is_broken = 0, 0.0, False
        if self._before is None:
            self._before = step - 1
        count = step - self._before
        if count <= self._count:
            return None
        self._step = step
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
