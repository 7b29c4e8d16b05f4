"""Losses that are known before the diagnosis is asked: a sign of trouble among them is not late."""

import math

from gradwatch.core import Jumps
from gradwatch.watches.budget import Pacer


class LossSigns:
    """Has a pacer look closer after a loss that jumps, or the first that is not finite."""

    def __init__(self, pacer: Pacer) -> None:
        self._pacer = pacer
        self._jumps = Jumps()
        self._was_finite = True
        self._epoch = self._place = 0
        self._sum = 0.0

    def add(self, loss: float) -> None:
        """The loss of the step that has just ended; on the thread that trains."""
        if self._is_sign(loss):
            self._pacer.look_closer()

    def add_late(self, loss: float) -> None:
        """The loss of an earlier step; on another thread."""
        if self._is_sign(loss):
            self._pacer.suspect()

    def add_mean(self, epoch: int, place: int, mean: float) -> None:
        """The mean over the first `place` steps of an epoch; on the thread that trains."""
        if epoch != self._epoch or place <= self._place:
            self._epoch, self._place, self._sum = epoch, 0, 0.0
        total, steps = mean * place, place - self._place
        loss = (total - self._sum) / steps
        self._place, self._sum = place, total
        # After a mean that is not finite, none of its epoch is.
        self.add(mean if not math.isfinite(mean) else loss)

    def _is_sign(self, loss: float) -> bool:
        was_finite, self._was_finite = self._was_finite, math.isfinite(loss)
        if not self._was_finite:
            return was_finite
        return self._jumps.add(loss) is not None
