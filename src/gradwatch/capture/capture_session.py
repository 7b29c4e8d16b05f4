"""The session that a capture sends its readings to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gradwatch.core import Reading
from gradwatch.util import Reporter
from gradwatch.watches import Timetable
from gradwatch.watches.budget import Pacer


class CaptureSession(Protocol):
    """What a capture needs of `record.Session`."""

    timetable: Timetable
    """What to measure, and when."""
    pacer: Pacer
    """Told when steps begin."""
    reporter: Reporter

    def open(self, capture: Any) -> None:
        """Open the run, unless it is open."""

    def submit(self, make_reading: Callable[[], Reading | None]) -> None:
        """Have a reading made, on another thread, and written."""

    def end_epoch(self, epoch: int, logs: Mapping[str, float], last_step: int) -> None:
        """An epoch has ended."""

    def may_measure(self, timetable: Timetable) -> bool:
        """Whether anything may be measured; may wait for other processes of this training."""
