"""How often to measure: as often as the budget allows."""

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence

from gradwatch.core import Moment, Schedule
from gradwatch.watches.budget import floor
from gradwatch.watches.budget.closer_look import CloserLook
from gradwatch.watches.budget.cost import Cost
from gradwatch.watches.budget.epoch_steps import EpochSteps
from gradwatch.watches.budget.floor import START, densest
from gradwatch.watches.budget.meter import Meter

HASTE = 3
"""Measured steps to have seen before measuring more rarely, where the cost is beyond doubt."""
PATIENCE = 8
"""The same before measuring more often; twice as many whenever that was a mistake."""
HOLD = 64
GAP = 32
FIRST_GAP = 8
"""The steps that are left out to compare with, while nothing is decided yet."""
LONGEST_WAIT = 256
KEPT_CHANGES = 64
FAR = 64
"""Steps between two that the user asks for, beyond which all of these may be whole."""
ENOUGH = 8
"""Episodes, and steps outside of any, without which there is no telling the cost."""
UNSTEADY = 1 / 3
"""A share of the time that nothing explains, beyond which measuring cannot be told from others."""
NEGLIGIBLE = 0.005
"""A fraction of the training time: an error below that does not matter."""


class Pacer:
    """Chooses the steps to measure so that training is slowed down by less than the budget.

    They are the multiples of an interval of 1, 2, 5, 10, 20, 50, ... steps, and one step of each
    epoch, unless epochs are too short for that, see `EpochSteps`. It starts with 10, or with more
    where the device lags that far behind. When the `Meter` has seen enough, the interval becomes
    the densest one that the budget has room for; it changes again when that is no longer so, not
    for every small fluctuation.

    To these comes the `floor`, counted from the first step that it sees, until measuring has
    added so many seconds; and the steps after a sign of trouble, see `CloserLook`.

    Where measured steps are so dense that measuring never ceases, a few steps are left
    out, rarer and rarer, to see what training takes without.

    The budget is a fraction of the time of training; None to only measure the cost of steps that
    the user has chosen. `is_quiet` tells whether all results have arrived and are written, and
    `hasten` asks for that to be soon.

    With `asked_for`, the user's schedule, it chooses among those steps; see `ThinningPacer`.
    """

    def __init__(
        self,
        budget: float | None,
        is_quiet: Callable[[], bool] = lambda: True,
        hasten: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.perf_counter,
        asked_for: Schedule | None = None,
    ) -> None:
        self._asked_for = asked_for
        self.budget = None if budget is None else _fraction(budget)
        self.schedule = Schedule(f"budget({budget:g})" if budget else "budget()", self._due)
        self._is_quiet = is_quiet
        self._hasten = hasten
        self._followed: Callable[[int], bool] | None = None
        self.epochs = Schedule("each_epoch(1)", self._is_of_epoch, True)
        self._epochs = EpochSteps(clock)
        self._meter = Meter(clock)
        self._all_steps = self._all_measured = 0
        self.forget()

    def forget(self) -> None:
        """Start over, for another model."""
        self._meter.forget()
        self._epochs.forget()
        self._interval = START
        self._since = 1
        self._news = 0
        """Evidence since the interval was changed."""
        self._patience = PATIENCE
        self._has_become_denser = False
        self._hold = floor.FIRST
        self._waited = 0
        self._in_gap = False
        self._is_decided = False
        self._origin: int | None = None
        """The first step."""
        self._has_floor = True
        # Kept, because readings ask later whether a step was due: from a step on, the interval,
        # and whether there is a floor.
        self._changes: list[tuple[int, int, bool]] = [(0, START, True)]
        self._closer = CloserLook()
        self._has_sign = False
        self._last_step = 0
        self._steps = self._measured_steps = self._measured_ticks = 0

    thinned: Schedule | None = None
    """The steps that may be whole; None if all may be."""

    def agree(self, is_one_of_many: bool) -> None:
        """Do not choose by the clock which steps are whole, if several processes train."""

    def follow(self, is_chosen: Callable[[int], bool] | None) -> None:
        """Follow a choice of steps that several processes have agreed on."""
        self._followed = is_chosen

    @property
    def pace(self) -> tuple[int, bool]:
        """The interval that the budget allows, and whether steps are being left out to compare."""
        return self._interval, self._in_gap

    @property
    def counts(self) -> tuple[int, int]:
        """How many steps there were, of any model, and how many of them were measured."""
        return self._all_steps, self._all_measured

    def suspect(self) -> None:
        """There is a sign of trouble: look closer from the step after the next; on any thread."""
        self._has_sign = True

    def look_closer(self) -> None:
        """There is a sign of trouble: look closer from the next step on.

        On the thread that trains, between two steps.
        """
        self._has_sign = False
        if self.budget is not None and self._followed is None:
            self._closer.begin(self._last_step + 1, self._steps)

    def compiled(self, seconds: float) -> None:
        """The first measured step took so much longer than later ones, by a better clock."""
        self._meter.compile_seconds = seconds

    def missed(self) -> None:
        """The step that began last, and was to be measured, is not."""
        self._meter.missed()
        self._measured_steps -= 1
        self._all_measured -= 1
        self._measured_ticks -= 1

    def stand_in(self) -> None:
        """The step that began last is not measured, but run by the measured step all the same."""
        self._meter.stand_in()

    def pause(self) -> None:
        """Training stops for something else: validation, the end of an epoch."""
        self._meter.pause()

    def tick(
        self,
        moments: Sequence[Moment],
        measured: int,
        *,
        counts: bool = True,
        was_measured: bool = False,
        whole: int = 0,
    ) -> None:
        """These steps begin now, and so many of them are measured; see `Meter.tick`.

        So many of those are `whole`: with what only the diagnosis wants, see `ThinningPacer`.
        """
        learned = self._meter.tick(
            len(moments), measured > 0, self._quiet, counts=counts, was_measured=was_measured
        )
        self._steps += len(moments)
        self._measured_steps += measured
        self._all_steps += len(moments)
        self._all_measured += measured
        self._measured_ticks += measured > 0
        if self.budget is None:
            return
        step = moments[-1].step
        self._origin = min(moments[0].step, step if self._origin is None else self._origin)
        if step < self._last_step:  # A model that was restored, or another loop.
            self._changes = [(0, *self._changes[-1][1:])]
            self._since = min(self._since, step)
            self._closer.go_back()
        self._last_step = step
        if self._has_sign:
            self.look_closer()
        self._closer.spend(moments, self._seconds_each, self._due_by_budget)
        self._close_floor(step + 1)
        if self._in_gap:
            self._end_gap(step)
        elif self._meter.since_bare >= max(self._hold, 4 * len(moments), self._sparse):
            self._in_gap, self._waited = True, 0
            self._hasten()
            self._change(step + 1, 0)
        if learned:
            self._reconsider(step + 1)
        elif self._since == 1 and self._meter.lag > self._interval:
            # Measured steps must lie apart, or there are no others to compare with.
            self._settle(step + 1, densest(1.5 * self._meter.lag))

    def cost(self) -> Cost:
        meter = self._meter
        return Cost(
            self.budget,
            None if self.budget is None else self._interval,
            self._since,
            meter.step_seconds,
            meter.added_seconds,
            self._slowdown(),
            meter.compile_seconds,
            meter.evidence,
            self._steps,
            self._measured_steps,
        )

    def _slowdown(self) -> float:
        """What measuring has added to the time of training, as a fraction; NaN in doubt."""
        meter = self._meter
        if min(meter.comparisons) < ENOUGH or not meter.step_seconds > 0:
            return math.nan
        if not meter.unexplained < UNSTEADY:
            return math.nan
        share = self._measured_ticks / (self._steps * meter.step_seconds)
        slowdown, error = share * meter.added_seconds, share * meter.doubt
        return slowdown if 2 * error <= max(slowdown / 2, NEGLIGIBLE) else math.nan

    def _due(self, moment: Moment) -> bool:
        if self._is_of_epoch(moment):
            return True
        if self._followed is not None:
            return self._followed(moment.step)
        return self._due_by_budget(moment) or self._closer.covers(moment.step)

    def _is_of_epoch(self, moment: Moment) -> bool:
        """Whether the step is measured because it stands for its epoch."""
        if not moment.stands_for_epoch or self.budget is None or self._followed is not None:
            return moment.stands_for_epoch
        return self._epochs.has_one(moment, self._seconds_each, self.budget)

    def _due_by_budget(self, moment: Moment) -> bool:
        start, interval, has_floor = self._changes[-1]
        if moment.step < start:
            place = bisect_right(self._changes, moment.step, key=lambda change: change[0]) - 1
            _, interval, has_floor = self._changes[max(place, 0)]
        if interval > 0 and self._is_multiple(moment, interval):
            return True
        if not has_floor:
            return False
        origin = moment.step if self._origin is None else self._origin
        return self._is_multiple(moment, floor.floor_interval(moment.step - origin + 1))

    def _is_multiple(self, moment: Moment, interval: int) -> bool:
        """Whether the step is a multiple, or the first after one that the user has asked for."""
        since, asked_for = moment.step % interval, self._asked_for
        if since == 0 or asked_for is None:
            return since == 0
        if not asked_for.is_fixed:
            return True  # A function of the user's, which is asked once per step.
        before = range(moment.step - min(since, FAR), moment.step)
        return not any(asked_for.due(Moment(step, moment.epoch)) for step in before)

    @property
    def _seconds_each(self) -> float:
        """What a measured step adds beyond doubt; while that is not known, all that it takes."""
        meter = self._meter
        if math.isfinite(meter.doubt):
            # On a busy machine, the delays of others are not to count.
            return meter.added_seconds - meter.doubt
        return meter.measured_seconds / max(self._measured_ticks, 1)

    def _close_floor(self, step: int) -> None:
        """Measure no more than the budget has room for, from `step` on, if the floor has had its
        share of seconds."""
        # Not for good where it is not known: it may turn out to be little.
        is_known = math.isfinite(self._meter.doubt)
        allowed = floor.SECONDS if is_known else floor.BLIND_SECONDS
        has_room = self._measured_ticks * self._seconds_each <= allowed
        if has_room != self._has_floor:
            self._has_floor = has_room
            self._change(step, 0 if self._in_gap else self._interval)

    @property
    def _sparse(self) -> int:
        """Steps in which there must be one to compare with, if it is the floor that is dense."""
        # What it is dense for passes soon.
        return 2 * self._interval if self._is_decided else 0

    def _quiet(self) -> bool:
        # A sink that hangs is never done, but does not slow training down either.
        return self._is_quiet() or (self._in_gap and self._waited > LONGEST_WAIT)

    def _end_gap(self, step: int) -> None:
        self._waited += 1
        enough = GAP if self._is_decided else FIRST_GAP
        if self._meter.bare_in_a_row >= enough or self._waited > 2 * LONGEST_WAIT:
            self._in_gap = False
            if self._news >= 2 * self._patience:
                self._hold = min(2 * self._hold, 64 * HOLD)
            self._hold = max(self._hold, HOLD)
            self._meter.since_bare = 0
            self._change(step + 1, self._interval)

    def _reconsider(self, step: int) -> None:
        """Choose the interval anew, from `step` on, if there is reason to."""
        meter = self._meter
        self._news += meter.latest
        if self.budget is None or not meter.step_seconds > 0 or self._news < HASTE:
            return
        allowed = self.budget * meter.step_seconds
        cost, doubt = meter.added_seconds, meter.doubt
        has_patience = self._news >= self._patience
        self._is_decided |= has_patience
        if cost - (0.0 if has_patience else doubt) > allowed * self._interval:
            # By leaps of a limited size: the evidence may be scanty, and further on
            # there is less of it.
            self._settle(step, min(densest(cost / allowed), 10 * self._interval))
        elif has_patience:
            # With some room, and in doubt not: so that it need not be taken back.
            denser = densest((cost + 2 * doubt) / (0.9 * allowed))
            if denser < self._interval:
                self._settle(step, denser)

    def _settle(self, step: int, interval: int) -> None:
        if interval != self._interval:
            if self._has_become_denser and interval > self._interval:
                self._patience = min(2 * self._patience, 64 * PATIENCE)
            self._has_become_denser = interval < self._interval
            self._interval, self._since = interval, step
            self._news, self._hold = 0, HOLD
            if not self._in_gap:
                self._change(step, interval)

    def _change(self, step: int, interval: int) -> None:
        """From `step` on, measure at this interval and at the floor; 0 for a gap in both."""
        self._changes.append((step, interval, self._has_floor and interval > 0))
        del self._changes[:-KEPT_CHANGES]


def _fraction(budget: float) -> float:
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        raise TypeError(f"budget is a fraction of the training time. Received: budget={budget!r}")
    if not 0 < budget <= 1:
        raise ValueError(
            "budget is a fraction of the training time, such as 0.01 for a slowdown of 1 %. "
            f"Received: budget={budget!r}"
        )
    return float(budget)
