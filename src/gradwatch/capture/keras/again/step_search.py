"""Runs kept steps again, measured, up to the first whose tensors are not finite."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gradwatch.capture.keras.again.kept_steps import KeptBatch, KeptState
from gradwatch.capture.keras.again.step_keeper import StepKeeper
from gradwatch.capture.site_table import SiteTables
from gradwatch.core import FIELDS, Kind, Moment
from gradwatch.measure import Fetched

SECONDS = 20.0
"""After which no further step is run again."""
_HARM = (Kind.LOSS, Kind.APPLIED_GRADIENT, Kind.UPDATE, Kind.WEIGHT)
_BAD = [FIELDS.index(name) for name in ("nan", "posinf", "neginf")]


class Rerun(NamedTuple):
    """What came of running steps again, from the first to the last."""

    first: int
    last: int
    moment: Moment | None
    """The step that was looked for; None if it did not come."""
    measured: Any
    """Its measurement, on the device."""
    seconds: float

    def words(self, step: int) -> str:
        """In words, if this step was seen not to be finite."""
        which = f"step {step}" if self.first == step else f"steps {self.first} to {self.last}"
        ran = f"step {step} is not finite: ran {which} again, on copies"
        if self.moment is not None:
            return f"{ran}, to measure step {self.moment.step} ({self.seconds:.1f} s)"
        if self.last < step:
            return f"{ran}, until it took too long ({self.seconds:.1f} s)"
        return f"{ran}, and all was finite: something changes variables between the steps"


class StepSearch:
    """Runs kept steps again with a measured function, on copies of the state."""

    def __init__(
        self,
        keeper: StepKeeper,
        function: Any,
        fetch: Callable[[Mapping[str, Any], Sequence[str]], Fetched],
        tables: SiteTables,
        may_skip: bool,
    ) -> None:
        self._keeper = keeper
        self._rerunner = keeper.rerunner
        self._function = function
        self._fetch = fetch
        self._tables = tables
        self._may_skip = may_skip

    def first_bad(self, step: int) -> Rerun | None:
        """The first step that is not finite, of those up to this one; None if none are kept."""
        states, batches = self._keeper.kept.up_to(step)
        start = self._last_finite(states)
        return self._run(start, states, batches, lambda _, measured: self.is_bad(measured))

    def single(self, step: int) -> Rerun | None:
        """This step; None if it is not kept, or such steps have taken too long."""
        states, batches = self._keeper.kept.up_to(step)
        start = states[-1] if states else None
        left = self._keeper.seconds_left
        if left <= 0:
            return None
        rerun = self._run(start, states, batches, lambda at, _: at.step == step, left)
        self._keeper.seconds_left -= 0.0 if rerun is None else rerun.seconds
        return rerun

    def _last_finite(self, states: list[KeptState]) -> KeptState | None:
        """The newest state with no more variables that are not finite than the oldest has."""
        alike = [each for each in states if each.finite() == states[0].finite()]
        return alike[-1] if alike else None

    def _run(
        self,
        start: KeptState | None,
        states: list[KeptState],
        batches: list[KeptBatch],
        is_found: Callable[[Moment, Any], bool],
        most_seconds: float = SECONDS,
    ) -> Rerun | None:
        wanted = [each for each in batches if start is not None and each.moment.step >= start.step]
        if start is None or not wanted:
            return None
        if self._rerunner.refuses(self._function, start.state, wanted[0].batch):
            return None
        began, state = time.perf_counter(), start.state
        known = {each.step: each.state for each in states}
        last, found, measured = start.step, None, None
        with self._rerunner.undisturbed():
            for each in wanted:
                # Between steps, a callback may have changed it.
                state = known.get(each.moment.step, state)
                measured, state = self._rerunner.run(self._function, state, each.batch)
                last = each.moment.step
                if is_found(each.moment, measured):
                    found = replace(each.moment, is_again=True)
                    break
                if time.perf_counter() - began > most_seconds:
                    break
        seconds = time.perf_counter() - began
        return Rerun(start.step, last, found, measured, seconds)

    def is_bad(self, measured: Any) -> bool:
        """Whether a step that was run again did harm."""
        arrays = self._fetch(measured, ["rows", "table"])()
        return is_harmed(arrays, self._tables, may_skip=self._may_skip)


def is_harmed(arrays: Mapping[str, Any], tables: SiteTables, *, may_skip: bool) -> bool:
    """Whether a step did harm: loss, gradients, updates or weights are not finite.

    If only gradients are not, the step `may_skip` its update, as loss scaling does.
    """
    bad = np.flatnonzero(arrays["rows"][:, _BAD].any(axis=1))
    if not bad.size:
        return False
    rows = tables.numbered(int(arrays["table"])).rows
    harm = _HARM if may_skip else (*_HARM, Kind.GRADIENT)
    return any(rows[row][1].kind in harm for row in bad)
