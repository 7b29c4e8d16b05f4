"""Losses that are known before the diagnosis is asked: a sign of trouble among them is not late."""

import math

from gradwatch.core import Jumps
from gradwatch.watches.budget import Pacer

RARE = 1.5
"""Times the largest deviation so far: a jump unlike any before."""
MOST_RARE = 3
"""Of a training, the rare jumps that are told."""


class LossSigns:
    """Has a pacer look closer after a loss that jumps, or the first that is not finite."""

    def __init__(self, pacer: Pacer) -> None:
        self._pacer = pacer
        self._jumps = Jumps()
        self._was_finite = True
        self._rare = 0
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

    def add_mean(self, epoch: int, place: int, mean: float | None) -> bool:
        """The mean over the first `place` steps of an epoch; on the thread that trains.

        Returns whether the loss jumps as it never did, which is told a few times.
        """
        if mean is None:
            return False
        if epoch != self._epoch or place <= self._place:
            self._epoch, self._place, self._sum = epoch, 0, 0.0
        total, steps = mean * place, place - self._place
        loss = (total - self._sum) / steps
        self._place, self._sum = place, total
        # After a mean that is not finite, none of its epoch is.
        told = self._rare
        self.add(mean if not math.isfinite(mean) else loss)
        return told < self._rare <= MOST_RARE

    def _is_sign(self, loss: float) -> bool:
        was_finite, self._was_finite = self._was_finite, math.isfinite(loss)
        if not self._was_finite:
            return was_finite
        jump = self._jumps.add(loss)
        self._rare += jump is not None and jump.rarity > RARE
        return jump is not None
