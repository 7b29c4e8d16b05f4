"""When a training that was finite no longer is."""

import math
from collections import deque
from collections.abc import Callable

MOST = 3
"""After so many times in a training, it is its way."""


class LossBreaks:
    """Notices the first step whose loss is not finite, and again only after finite ones.

    A layer may turn NaN into 0, so that the loss stays finite while weights do not. Measured steps
    show that, and copies of the state.
    """

    def __init__(self) -> None:
        self.finite_until = 0
        """The last step whose loss is known to be finite."""
        self._measured: deque[tuple[int, Callable[[], bool]]] = deque()
        self._is_broken = self._is_harmed = False
        self._count = 0

    def add_measured(self, step: int, is_harmed: Callable[[], bool]) -> None:
        """A step was measured; the function waits for the measurement, and says if it is bad."""
        self._measured.append((step, is_harmed))

    def begins(self, step: int, loss: float | None) -> bool:
        """Whether training stops being finite with this step, which has ended."""
        was_broken = self._is_broken
        self._is_broken = loss is not None and not math.isfinite(loss)
        while self._measured and self._measured[0][0] <= step:
            _, is_harmed = self._measured.popleft()
            # That cannot be undone: to ask once is enough.
            self._is_harmed = self._is_harmed or (not self._is_broken and is_harmed())
        self._is_broken |= self._is_harmed
        if not self._is_broken:
            self.finite_until = step
        return self._is_broken and not was_broken and self._counts()

    def harm(self) -> bool:
        """Variables are not finite; returns whether that is new."""
        was_broken, self._is_broken, self._is_harmed = self._is_broken, True, True
        return not was_broken and self._counts()

    def _counts(self) -> bool:
        self._count += 1
        return self._count <= MOST
