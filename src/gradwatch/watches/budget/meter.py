"""Measures the time that measuring adds to training, from the start times of steps."""

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

BARE_STEPS = 96
EPISODES = 64
WEIGHT = 8
LONGEST_LAG = 64


@dataclass
class _Episode:
    """The steps from a measured one until all of its results are written."""

    ticks: int = 0
    steps: int = 0
    seconds: float = 0.0
    measured: int = 0
    last_measured: int = 0
    """How many ticks before the last measured step."""
    counts: bool = True


class Meter:
    """Compares stretches of training with and without measuring.

    The cost of a measured step is not only in that step: the device may be many
    steps behind the thread that tells it what to do, and what was measured is
    written on other threads while the next steps run. So the unit is the
    *episode*: all steps from a measured one until everything of it has arrived and
    is written. What an episode took longer than as many steps outside of any is
    what measuring has added, wherever it was spent.

    Outliers among the episodes, and more than a step can take, are left out: stalls for
    validation, checkpoints, slow data. The first episode compiles, and does not count.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Start over, for another model or device."""
        self.step_seconds = math.nan
        self.compile_seconds = math.nan
        """How much longer the first measured step took than the next one."""
        self.measured_seconds = 0.0
        """The time of all measured steps but the first, which compiles."""
        self.since_bare = 0
        """Steps since the last one outside of any episode."""
        self.latest = 0
        """The weight of the newest episode."""
        self.bare_in_a_row = 0
        self._bare: deque[float] = deque(maxlen=BARE_STEPS)
        self._lags: deque[int] = deque(maxlen=8)
        self._first_seconds: float | None = None
        self._elapsed, self._timed, self._timed_measured = 0.0, 0, 0
        """The time of steps that were not settling, their number, and how many were measured."""
        self._has_compiled = self._has_run_bare = False
        self._known, self._doubt = math.nan, math.inf
        self._costs: deque[tuple[float, int]] = deque(maxlen=EPISODES)
        self._steps_each = 1.0
        """Steps of an episode for each measured one, on average."""
        self._settling = 2  # Keras may compile its own step twice.
        self.pause()

    def pause(self) -> None:
        """Training stops for something else: the next interval is not the time of a step."""
        self._last: float | None = None
        self._last_steps = 1
        self._last_was_measured = self._last_stands_in = False
        self._episode: _Episode | None = None
        # After a pause a device that lags behind has to fall behind again, and until
        # then the times at which steps begin say nothing about how long they take.
        self._settling = max(self._settling, 1, min(self.lag, LONGEST_LAG))

    def tick(
        self,
        steps: int,
        is_measured: bool,
        is_quiet: Callable[[], bool],
        *,
        counts: bool = True,
        was_measured: bool = False,
    ) -> bool:
        """So many steps begin now; returns whether an episode ended, so the cost is known better.

        `is_quiet` tells whether all earlier results have arrived and are written. `counts` is False
        for a step with more than the usual measurements. `was_measured` says that the last step was
        measured and is recorded now.
        """
        now = self._clock()
        if was_measured:
            self._measured(counts)
        if self._last is not None:
            self._add(now - self._last, self._last_steps)
        # What was measured just now is not even sent yet.
        ended = self._episode is not None and not was_measured and is_quiet() and self._end()
        if is_measured and not was_measured:
            self._measured(counts)
        self._last, self._last_steps, self._last_was_measured = now, steps, is_measured
        self._last_stands_in = False
        return ended

    def stand_in(self) -> None:
        """The step that began last is run by what measures others: none to compare these with."""
        self._last_stands_in = True
        self.since_bare = 0

    def missed(self) -> None:
        """The step that began last, and was to be measured, is not."""
        self._last_was_measured = False
        if self._episode is not None:
            self._episode.measured -= 1
            if not self._episode.measured:
                self._episode = None

    @property
    def lag(self) -> int:
        """Steps from a measured one until all of its results have arrived; 0 if not known."""
        return int(statistics.median(self._lags)) if self._lags else 0

    @property
    def evidence(self) -> int:
        """The number of measured steps behind the result; a long episode has limited weight."""
        return sum(weight for _, weight in self._costs)

    @property
    def added_seconds(self) -> float:
        """The time that a measured step adds to training; NaN if not known."""
        return max(self._known, 0.0)  # In this order: NaN stays NaN.

    @property
    def doubt(self) -> float:
        """The standard error of `added_seconds`; infinite if there is too little to tell."""
        return self._doubt

    @property
    def unexplained(self) -> float:
        """The share of the time that neither steps nor measuring explain; NaN if not known."""
        known = self._timed * self.step_seconds + self._timed_measured * self.added_seconds
        return max(0.0, 1 - known / self._elapsed) if self._elapsed > 0 else math.nan

    @property
    def comparisons(self) -> tuple[int, int]:
        """How many episodes there were, and how many steps outside of any."""
        return len(self._costs), len(self._bare)

    def _measured(self, counts: bool) -> None:
        if self._episode is None:
            self._episode = _Episode(counts=counts and self._settling == 0)
        self._episode.measured += 1
        self._episode.last_measured = self._episode.ticks
        self._episode.counts &= counts

    def _add(self, seconds: float, steps: int) -> None:
        """A tick's time to the episode, or to the bare steps."""
        episode = self._episode
        if self._last_was_measured:
            self._add_measured(seconds / steps)
        elif self._last_stands_in:
            self._settling = max(self._settling, 1)
        elif not self._has_run_bare:
            # Where measured steps came first, training's own step is compiled now.
            self._has_run_bare = True
            self._settling = max(self._settling, 1)
        if self._settling == 0:
            self._elapsed += seconds
            self._timed += steps
            self._timed_measured += self._last_was_measured
        else:
            self._settling -= 1
            if episode is not None:
                episode.counts = False
        if episode is not None:
            episode.ticks += 1
            episode.steps += steps
            episode.seconds += min(seconds, self._limit(steps))
            self.since_bare += steps
            self.bare_in_a_row = 0
        elif self._settling == 0:
            self._bare.append(seconds / steps)
            self.since_bare = 0
            self.bare_in_a_row += steps

    def _add_measured(self, seconds: float) -> None:
        if self._first_seconds is None:
            self._first_seconds = seconds
        else:
            if math.isnan(self.compile_seconds):
                self.compile_seconds = max(0.0, self._first_seconds - seconds)
            self.measured_seconds += seconds

    def _limit(self, steps: int) -> float:
        """The most that a tick may count: more is a stall of something else."""
        level = self.step_seconds
        if self._last_was_measured:
            level += self.added_seconds
        # NaN where a part is not known; and the interpreter switches threads every 5 ms.
        return math.inf if math.isnan(level) else 5 * steps * level + 0.02

    def _end(self) -> bool:
        """All results of the episode have arrived: compute its cost."""
        episode, self._episode = self._episode, None
        if episode is None or episode.ticks == 0:
            self._episode = episode
            return False
        self._lags.append(episode.ticks - episode.last_measured)
        if not self._has_compiled:
            self._has_compiled = True
            # Only now is it known how far the device lags: those before may be too short.
            self._bare.clear()
            return False
        if len(self._bare) < 3:
            return False
        self.step_seconds, error = _mean_without_stalls(self._bare)
        if not episode.counts:
            return False
        added = episode.seconds - episode.steps * self.step_seconds
        self.latest = min(episode.measured, WEIGHT)
        self._costs.append((added / episode.measured, self.latest))
        self._known, spread = _mean_and_error(self._costs)
        self._steps_each += (episode.steps / episode.measured - self._steps_each) / len(self._costs)
        # All episodes are compared with the same steps: what is wrong with these does not average
        # out over the episodes.
        self._doubt = math.hypot(spread, self._steps_each * error)
        return True


def _mean_without_stalls(times: Iterable[float]) -> tuple[float, float]:
    """The mean and its standard error. Not the median: what it is compared with are sums."""
    values = list(times)
    limit = 3 * statistics.median(values)
    kept = [value for value in values if value <= limit]
    mean = statistics.fmean(kept)
    if len(kept) < 2:
        return mean, math.inf
    variance = statistics.fmean((value - mean) ** 2 for value in kept)
    return mean, math.sqrt(variance / (len(kept) - 1))


def _mean_and_error(costs: Iterable[tuple[float, int]]) -> tuple[float, float]:
    """The weighted mean of all but the outliers, and its standard error."""
    pairs = list(costs)
    middle = statistics.median(cost for cost, _ in pairs)
    spread = statistics.median(abs(cost - middle) for cost, _ in pairs)
    # Not a median: it would be below the mean where times scatter upwards, as they do.
    kept = [(cost, weight) for cost, weight in pairs if abs(cost - middle) <= 6 * spread]
    total = sum(weight for _, weight in kept)
    mean = sum(weight * cost for cost, weight in kept) / total
    if len(kept) < 2:
        return mean, math.inf
    variance = sum(weight * (cost - mean) ** 2 for cost, weight in kept) / total
    return mean, math.sqrt(variance / (len(kept) - 1))
