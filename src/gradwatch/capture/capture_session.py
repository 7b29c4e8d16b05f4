"""How a session and the captures that send it readings see each other."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gradwatch.core import Kind, ModelFacts, Reading, SiteInfo
from gradwatch.util import Reporter
from gradwatch.watches import Timetable
from gradwatch.watches.budget import Pacer


class Capture(Protocol):
    """What a session asks of what measures a training."""

    @property
    def next_step(self) -> int:
        """The first step that may be recorded."""

    @property
    def reports_each_step(self) -> bool:
        """Whether the training reports its loss after each step, later than it is measured."""

    def meaning(self) -> Mapping[Kind, str]:
        """The meaning of the measurements of each kind, in words."""

    def facts(self) -> ModelFacts:
        """The facts known about the model."""

    def infos(self) -> list[SiteInfo]:
        """The facts known about the measured sites."""


class Source(Protocol):
    """A way to train that is recorded: `fit`, or a loop."""

    @property
    def reopens(self) -> bool:
        """Whether a run that was closed is opened again by the next step."""

    def stop(self) -> None:
        """The run is closed."""

    def infos(self) -> list[SiteInfo]:
        """The facts known about the measured sites."""


class CaptureSession(Protocol):
    """What a capture needs of `record.Session`."""

    timetable: Timetable
    pacer: Pacer
    reporter: Reporter
    is_diagnosed: bool
    """Whether there is a diagnosis of what is recorded."""
    watches_by_default: bool
    """Whether the user has not said what to measure."""

    def open(self, capture: Capture) -> None:
        """Open the run, unless it is open."""

    def submit(
        self,
        make_reading: Callable[[], Reading | Sequence[Reading] | None],
        rows: int | None = None,
    ) -> bool:
        """Have a reading, or several, made on another thread, and written; False if not."""

    def tell_facts(self, facts: ModelFacts) -> None:
        """More is known about the model than when the run was opened."""

    def end_epoch(self, epoch: int, logs: Mapping[str, float]) -> None:
        """An epoch has ended."""

    def may_measure(self, timetable: Timetable) -> bool:
        """Whether anything may be measured; may wait for other processes of this training."""
