"""The steps that are measured because there was a sign of trouble."""

from collections.abc import Callable, Sequence

from gradwatch.core import Moment

STEPS = 20
"""After each sign."""
MOST_STEPS = 100
"""In all, not counting those that would have been measured anyway; and 1 % of a longer training."""
SECONDS = 5.0
"""The most that they may add to training in all."""
KEPT = 32


class CloserLook:
    """A few spans of steps, and what is left of what they may cost.

    Spans begin and are cut short on the thread that trains; `covers` is asked on any, also later
    about steps that are past.
    """

    def __init__(self) -> None:
        # Replaced as a whole, because another thread may be reading it: (first, last) step of each.
        self._spans: tuple[tuple[int, int], ...] = ()
        self._steps = 0
        self._seconds = 0.0

    def covers(self, step: int) -> bool:
        return any(first <= step <= last for first, last in self._spans)

    def begin(self, step: int, steps_so_far: int) -> None:
        """Measure the steps from this one on, unless that has been done often enough."""
        allowed = max(MOST_STEPS, steps_so_far // 100)
        length = min(STEPS, allowed - self._steps)
        if length > 0 and self._seconds < SECONDS and not self.covers(step):
            self._spans = (*self._spans[1 - KEPT :], (step, step + length - 1))

    def spend(
        self, moments: Sequence[Moment], seconds: float, is_due: Callable[[Moment], bool]
    ) -> None:
        """These steps begin now, and measuring each adds so many seconds; `is_due` tells those that
        are due without a closer look."""
        if not self._spans or moments[0].step > self._spans[-1][1]:
            return
        extra = sum(self.covers(m.step) and not is_due(m) for m in moments)
        self._steps += extra
        self._seconds += extra * seconds
        if self._seconds >= SECONDS:
            first, last = self._spans[-1]
            self._spans = (*self._spans[:-1], (first, min(last, moments[-1].step)))

    def go_back(self) -> None:
        """Training has gone back to an earlier step."""
        self._spans = ()
