"""The numbers of steps that need no measuring: metrics, and losses of unmeasured steps."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gradwatch.capture.recorder import Submit
from gradwatch.core import Moment, Reading, Site, Summary

AT_ONCE = 256
"""So many steps are sent together at most."""

MakeReading = Callable[[], Reading]


@dataclass(frozen=True)
class _Batch:
    """Makes the readings of a batch."""

    make: Callable[[list[MakeReading]], list[Reading]]
    readings: list[MakeReading]
    is_measured = False

    def __call__(self) -> list[Reading]:
        return self.make(self.readings)


class NumberLog:
    """Sends the numbers of steps, many steps at once: each by itself would cost as much as all.

    A batch is submitted with its first reading, and grows until the thread that makes readings
    comes to it. `close_batch` ends it: what is sent next, by whatever way, comes after it.
    """

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self._lock = threading.Lock()
        self._batch: list[MakeReading] | None = None
        self._sites: dict[tuple[Site, ...], tuple[Site, ...]] = {}

    def add(
        self,
        moment: Moment,
        numbers: Callable[[], Mapping[Site, float]],
        group: str = "",
        micro_batch: int | None = None,
        when: float | None = None,
    ) -> None:
        """Record the numbers of a step; the function that returns them may wait for the device."""
        when = time.time() if when is None else when
        self.add_reading(lambda: self.reading(moment, when, numbers(), group, micro_batch))

    def add_reading(self, make_reading: MakeReading) -> None:
        """Have a reading of nothing but numbers made, and written."""
        with self._lock:
            batch = self._batch
            if batch is not None and len(batch) < AT_ONCE:
                batch.append(make_reading)
                return
            batch = self._batch = [make_reading]
        if not self._submit(_Batch(self._made, batch), None):
            self._batch = None

    def close_batch(self) -> None:
        self._batch = None

    def reading(
        self,
        moment: Moment,
        when: float,
        numbers: Mapping[Site, float],
        group: str,
        micro_batch: int | None,
    ) -> Reading:
        # The same object for the same sites, by which sinks recognise them at once.
        sites = self._sites.setdefault(tuple(numbers), tuple(numbers))
        summary = Summary.of_numbers(list(numbers.values()))
        return Reading(
            moment.step, moment.epoch, when, sites, summary, group=group, micro_batch=micro_batch
        )

    def _made(self, batch: list[MakeReading]) -> list[Reading]:
        """The readings of a batch, which is thereby closed; waits for the device."""
        with self._lock:
            if self._batch is batch:
                self._batch = None
        return [make_reading() for make_reading in batch]
