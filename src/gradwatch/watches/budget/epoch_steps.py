"""Which epochs have a step of their own under a budget."""

from collections.abc import Callable

from gradwatch.core import Moment

FIRST = 10
"""Epochs, of one fit or several, that have one whatever it costs."""
TIMES = 3
"""How many times as long as another measured step it takes, about: it has histograms."""
KEPT = 64


class EpochSteps:
    """Decides about the step of an epoch when it is asked first, and says the same ever after.

    After the first epochs, such steps lie so far apart that they are within the budget.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Start over, for another model."""
        self._decided: dict[int, bool] = {}
        self._count = 0
        self._last = 0.0

    def has_one(self, moment: Moment, seconds: float, budget: float) -> bool:
        """Whether the step that stands for an epoch is measured; others take so many seconds."""
        known = self._decided.get(moment.step)
        if known is not None:
            return known
        now = self._clock()
        is_due = self._count < FIRST or budget * (now - self._last) >= TIMES * seconds
        self._count += 1
        if is_due:
            self._last = now
        # A copy, since other threads ask about steps that are past.
        self._decided = dict(list(self._decided.items())[1 - KEPT :]) | {moment.step: is_due}
        return is_due
