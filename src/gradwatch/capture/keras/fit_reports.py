"""What Keras reports after the steps of `fit`, in the order of the steps."""

import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gradwatch.core import Kind, Moment, Site

_LOSS = Site(Kind.METRIC, "loss")
WAITED_FOR = 64
"""After so many newer reports, a missing one is not waited for."""


class Report(NamedTuple):
    """The logs of a step, the one at `place` in its epoch, `stride` steps after the last."""

    step: int
    epoch: int
    place: int
    stride: int
    time: float
    numbers: Mapping[Site, float]

    @property
    def moment(self) -> Moment:
        return Moment(self.step, self.epoch)

    @property
    def loss(self) -> float | None:
        """What is reported as the loss: the mean over the epoch so far."""
        return self.numbers.get(_LOSS)

    def get_numbers(self) -> Mapping[Site, float]:
        return self.numbers


class FitReports:
    """Keeps reports until those of the steps before have come.

    Keras reports from threads of its own, and not quite in the order of the steps.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Report] = []
        self._last, self._epoch = 0, 0
        """Of the last report that was taken."""

    def last_step_of(self, epoch: int) -> int | None:
        """The last step of an epoch that was reported and taken; None if it is another epoch's."""
        return self._last if epoch == self._epoch else None

    def add(self, step: int, epoch: int, place: int, stride: int, logs: Mapping[str, Any]) -> None:
        """Take the logs of a step; on any thread."""
        numbers = numbers_in(logs, Kind.METRIC)
        if numbers:
            with self._lock:
                self._waiting.append(Report(step, epoch, place, stride, time.time(), numbers))

    def take(self, *, everything: bool = False) -> list[Report]:
        """The reports to which nothing is missing, or all of them, in the order of the steps."""
        if not self._waiting:
            return []
        with self._lock:
            waiting = sorted(self._waiting, key=lambda report: report.step)
            taken = 0
            for each in waiting:
                follows = each.place <= each.stride or each.step == self._last + each.stride
                if not (everything or follows or len(waiting) - taken > WAITED_FOR):
                    break
                self._last, self._epoch = each.step, each.epoch
                taken += 1
            self._waiting = waiting[taken:]
            return waiting[:taken]


def numbers_in(logs: Mapping[str, Any], kind: Kind, prefix: str = "") -> dict[Site, float]:
    """The numbers among logs; what is not one number is left out."""
    found = {}
    for name, value in logs.items():
        if type(value) is float:  # As Keras has them.
            found[Site(kind, f"{prefix}{name}")] = value
            continue
        try:
            array = np.asarray(value)
            if array.size == 1 and array.dtype.kind in "biuf":
                found[Site(kind, f"{prefix}{name}")] = float(array.reshape(()))
        except Exception:  # A user's own object, that is no number.
            continue
    return found
