"""The course of a check: how many steps were run, and what was found."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradwatch.diagnosis import Finding
from gradwatch.record import Monitor
from gradwatch.sinks import Store

PATIENCE = 60.0
"""Seconds to wait for what hangs, once."""
AT_ONCE = 16
"""Steps that are run before what was measured is waited for; of many more, some would be lost."""


class EnoughSteps(BaseException):
    """Ends a script after the steps that were asked for; not an error, so that none catches it."""


class Course:
    """Counts the steps of a script, and holds the monitors of its models.

    A verdict on some of the steps would be none, so now and then all that was measured is waited
    for until it has been judged, also where the machine is busy with other things.

    Args:
        directory: where runs are recorded; the first model's in itself.
        steps: how many steps to run.
        on_finding: called with each finding.
    """

    def __init__(
        self, directory: Path, steps: int, on_finding: Callable[[Finding], object] | None = None
    ) -> None:
        self.steps = 0
        self.monitors: list[Monitor] = []
        self._directory = directory
        self._most = steps
        self._on_finding = on_finding
        self._judged = 0
        self._is_stuck = False

    def begin_step(self, count: int = 1) -> None:
        """A step, or several at once, come next.

        Raises:
            EnoughSteps: there were enough.
        """
        is_enough = self.steps >= self._most
        if is_enough or self.steps - self._judged >= AT_ONCE:
            self._wait()
        if is_enough:
            raise EnoughSteps
        self.steps += count

    def monitor(self, **options: Any) -> Monitor:
        """A monitor for another model; it measures every step."""
        number = len(self.monitors) + 1
        directory = self._directory if number == 1 else self._directory / f"model-{number}"
        made = Monitor(directory, every=1, sinks=[Store()], on_finding=self._on_finding, **options)
        self.monitors.append(made)
        return made

    @property
    def findings(self) -> list[Finding]:
        """What was found in all of them."""
        return [finding for monitor in self.monitors for finding in monitor.findings]

    def close(self) -> None:
        """Write out all there is."""
        self._wait()
        for monitor in self.monitors:
            monitor.close()

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._is_stuck and not all(m._recording.is_quiet for m in self.monitors):
            self._is_stuck = time.monotonic() > deadline
            time.sleep(0.001)
        self._judged = self.steps
