"""Which of the steps that the user has chosen are measured as a whole."""

import time
from collections.abc import Callable, Sequence

from gradwatch.core import Moment, Schedule
from gradwatch.watches.budget.pacer import Pacer


class ThinningPacer(Pacer):
    """Measures the cost of steps that the user has chosen, and chooses the *whole* ones of them.

    At a whole step, what only the diagnosis wants is measured, too. A second pacer sees to it that
    this adds less than the `budget`: it compares whole steps with all others. `has_arrived` tells
    whether the readings of whole steps have arrived.
    """

    def __init__(
        self,
        budget: float,
        asked_for: Schedule,
        is_quiet: Callable[[], bool] = lambda: True,
        hasten: Callable[[], object] = lambda: None,
        has_arrived: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._diagnosis = Pacer(budget, has_arrived, hasten, clock, asked_for)
        self.thinned = self._diagnosis.schedule
        self._has_agreed = False
        super().__init__(None, is_quiet, hasten, clock)

    def forget(self) -> None:
        super().forget()
        self._diagnosis.forget()

    def agree(self, is_one_of_many: bool) -> None:
        if is_one_of_many and not self._has_agreed:
            self.follow(lambda step: True)

    def follow(self, is_chosen: Callable[[int], bool] | None) -> None:
        self._has_agreed = True
        super().follow(is_chosen)
        self._diagnosis.follow(is_chosen)

    def suspect(self) -> None:
        super().suspect()
        self._diagnosis.suspect()

    def look_closer(self) -> None:
        super().look_closer()
        self._diagnosis.look_closer()

    def pause(self) -> None:
        super().pause()
        self._diagnosis.pause()

    def tick(
        self,
        moments: Sequence[Moment],
        measured: int,
        *,
        counts: bool = True,
        was_measured: bool = False,
        whole: int = 0,
    ) -> None:
        super().tick(moments, measured, counts=counts, was_measured=was_measured)
        self._diagnosis.tick(moments, whole, counts=counts, was_measured=was_measured and whole > 0)
