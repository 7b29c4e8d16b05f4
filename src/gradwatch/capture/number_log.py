"""The numbers of steps that need no measuring: metrics, and losses of unmeasured steps."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from gradwatch.capture.recorder import Submit
from gradwatch.core import Moment, Reading, Site, Summary

AT_ONCE = 256
"""So many steps are sent together at most."""


class StepNumbers(NamedTuple):
    """The numbers of a step, by site."""

    moment: Moment
    time: float
    values: Mapping[Site, float]
    group: str = ""
    micro_batch: int | None = None


Wait = Callable[[], StepNumbers]


@dataclass(frozen=True)
class _Batch:
    """Makes the readings of a batch."""

    make: Callable[[list[Wait]], list[Reading]]
    steps: list[Wait]
    is_measured = False

    def __call__(self) -> list[Reading]:
        return self.make(self.steps)


class NumberLog:
    """Sends the numbers of steps, many steps at once: each by itself would cost as much as all.

    A batch is submitted with its first step, and grows until the thread that makes readings
    comes to it. `close_batch` ends it: what is sent next, by whatever way, comes after it.
    """

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self._lock = threading.Lock()
        self._batch: list[Wait] | None = None
        self._sites: dict[tuple[Site, ...], tuple[Site, ...]] = {}

    def add(
        self,
        moment: Moment,
        values: Callable[[], Mapping[Site, float]],
        group: str = "",
        micro_batch: int | None = None,
        when: float | None = None,
    ) -> None:
        """Record the numbers of a step; the function that returns them may wait for the device."""
        when = time.time() if when is None else when
        self.add_later(lambda: StepNumbers(moment, when, values(), group, micro_batch))

    def add_later(self, wait: Wait) -> None:
        """Record the numbers that a function returns; it is called on another thread."""
        with self._lock:
            batch = self._batch
            if batch is not None and len(batch) < AT_ONCE:
                batch.append(wait)
                return
            batch = self._batch = [wait]
        if not self._submit(_Batch(self._readings, batch), None):
            self._batch = None

    def close_batch(self) -> None:
        self._batch = None

    def _readings(self, batch: list[Wait]) -> list[Reading]:
        """The readings of a batch, which is thereby closed; waits for the device."""
        with self._lock:
            if self._batch is batch:
                self._batch = None
        alike = groupby([wait() for wait in batch], lambda step: tuple(step.values))
        return [
            reading
            # The same object for the same sites, by which sinks recognise them at once.
            for sites, own in alike
            for reading in _readings(self._sites.setdefault(sites, sites), list(own))
        ]


def _readings(sites: tuple[Site, ...], steps: Sequence[StepNumbers]) -> Iterator[Reading]:
    # All summaries at once: a dozen operations on arrays, and not for each step.
    rows = Summary.of_numbers([list(step.values.values()) for step in steps]).pack()
    fields = np.moveaxis(rows, -1, 1)
    for (moment, when, _, group, micro_batch), own in zip(steps, fields, strict=True):
        yield Reading(
            moment.step,
            moment.epoch,
            when,
            sites,
            Summary(*own),
            group=group,
            micro_batch=micro_batch,
            is_late=moment.is_again,
        )
