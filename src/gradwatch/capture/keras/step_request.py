"""What is asked of a training step: a measurement, for a monitor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradwatch.capture.keras.backends.keras_backend import KerasBackend
from gradwatch.core import Moment
from gradwatch.util import Reporter


@dataclass(frozen=True, eq=False)
class Observer:
    """A monitor of a training step."""

    backend: KerasBackend
    observation: Any
    """An `Observation`, or a `MirroredObservation` of several replicas."""
    send: Callable[[StepRequest, Any], None]
    """Takes each request and its measurement, as arrays on the device."""
    reporter: Reporter
    say: Callable[[str], object]
    """Prints a line."""
    compiled: Callable[[float], object]
    """Takes the seconds for which the step was compiled."""
    missed: Callable[[], object]
    """Told if a step is not measured after all, because what measures it is being compiled."""
    is_spare: bool = False
    """Whether training never waits for what measures for it: another observer does instead."""

    @property
    def is_refused(self) -> bool:
        """Whether a measured step would draw other random numbers than the model's own."""
        return self.backend.holds_random_state and self.backend.own_step_has_run


@dataclass(frozen=True)
class StepRequest:
    """A measurement of one step, for one observer."""

    moment: Moment
    histograms: bool
    observer: Observer
    may_wait: bool = True
    """Whether the step waits until what measures it is compiled; else `instead` is measured."""
    instead: StepRequest | None = None
    is_due: bool = True
    """Whether it is sent; else the measured step only runs in the place of the model's own."""


def instead_of(requests: Sequence[StepRequest]) -> list[StepRequest]:
    """What is measured while what measures these is being compiled, if anything is."""
    return [request.instead for request in requests if request.instead is not None]


def report_failure(requests: Sequence[Sequence[StepRequest]], error: Exception, doing: str) -> None:
    for each in requests:
        for request in each:
            request.observer.reporter.internal_error(error, doing, "that step")
