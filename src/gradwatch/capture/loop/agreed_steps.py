"""The steps that all ranks of a training measure, without asking each other at any step."""

from collections.abc import Callable
from typing import NamedTuple

from gradwatch.core import Moment
from gradwatch.watches import Timetable
from gradwatch.watches.budget import GAP, START, is_evenly_spread, is_in_floor

LEAD = 8
"""How many steps ahead a change is announced, so that all ranks know it when it comes."""
MEET = 100
"""Where no step is due by itself (`every="epoch"`), one in so many steps is measured: only there
can the first rank announce that an epoch has begun."""
_LOOK = 2 * MEET
_FAR = 10**9 + 7


class ScheduleUpdate(NamedTuple):
    """A change that the first rank announces with a measured step; zeros if there is none.

    Up to the step `until` all stays as it was; from `since` on the steps that a budget chooses are
    the multiples of `interval` and the floor; between the two there is none. At `epoch_step`, what
    is due once an epoch is measured.
    """

    until: int = 0
    since: int = 0
    interval: int = 0
    epoch_step: int = 0


class AgreedSteps:
    """The steps that all ranks measure.

    Schedules of steps are the same everywhere. What only one rank can know, how often the budget
    allows to measure and when an epoch begins, is announced by the first rank, and its
    announcements reach all ranks in the same order. So all come to the same steps. The budget of
    the timetable asks `is_paced`.
    """

    def __init__(self, timetable: Timetable) -> None:
        self._timetable = timetable
        self._updates: list[ScheduleUpdate] = []
        self._epoch_steps = {1}
        self._meets: bool | None = None
        self.goes_by_epoch = _is_due(timetable, _FAR, True) and not _is_due(timetable, _FAR, False)
        """Whether anything is due once an epoch."""

    def is_paced(self, step: int) -> bool:
        """Whether the budget chooses a step."""
        if step in self._epoch_steps:
            return True
        for update in reversed(self._updates):
            if step >= update.until:
                is_paused = step < update.since
                return not is_paused and (step % update.interval == 0 or is_in_floor(step))
        return is_evenly_spread(step)

    def is_measured(self, step: int) -> bool:
        """Whether all ranks measure a step, as far as is known by now."""
        if self._timetable.is_due(self.moment(step)):
            return True
        if self._meets is None:
            early = range(2, _LOOK)
            self._meets = not any(_is_due(self._timetable, step, False) for step in early)
        return self._meets and step % MEET == 0

    def has_cells(self, step: int) -> bool:
        """Whether histograms are taken at a step."""
        return any(self._timetable.histograms_due(self.moment(step)))

    def moment(self, step: int, epoch: int = 1) -> Moment:
        return Moment(step, epoch, stands_for_epoch=step in self._epoch_steps)

    def apply(self, update: ScheduleUpdate) -> None:
        if update.interval:
            self._updates.append(update)
        if update.epoch_step:
            self._epoch_steps.add(update.epoch_step)


class ScheduleAnnouncer:
    """Finds the changes that the first rank announces.

    `pace` returns the interval of the budget now, and whether a pause comes first; it is None
    without a budget.
    """

    def __init__(self, pace: Callable[[], tuple[int, bool]] | None, goes_by_epoch: bool) -> None:
        self._pace = pace
        self._goes_by_epoch = goes_by_epoch
        self._announced = (START, False)
        self._epoch: int | None = None

    def update(self, step: int, epoch: int) -> ScheduleUpdate:
        """The change, when training has come to that step and epoch."""
        ahead = step + LEAD
        new_epoch = self._goes_by_epoch and self._epoch not in (None, epoch)
        self._epoch = epoch
        epoch_step = ahead if new_epoch else 0
        if self._pace is None:
            return ScheduleUpdate(epoch_step=epoch_step)
        before, self._announced = self._announced, self._pace()
        interval, pauses = self._announced
        if pauses and not before[1]:
            return ScheduleUpdate(ahead, ahead + GAP + LEAD, interval, epoch_step)
        if interval != before[0]:
            return ScheduleUpdate(ahead, ahead, interval, epoch_step)
        return ScheduleUpdate(epoch_step=epoch_step)


def _is_due(timetable: Timetable, step: int, stands_for_epoch: bool) -> bool:
    return timetable.is_due(Moment(step, stands_for_epoch=stands_for_epoch))
