"""Counts the steps of a checked script and holds its monitors."""

import time
from pathlib import Path
from typing import Any

from gradwatch.diagnosis import Finding, Verdict
from gradwatch.record import Monitor
from gradwatch.sinks import Store

TIMEOUT = 60.0
"""Seconds to wait for a measurement that hangs, once."""
STEPS_AT_ONCE = 16
"""After so many steps, wait until they are diagnosed: a long queue would drop some."""


class EnoughSteps(BaseException):
    """Ends a script after the requested steps. Not an `Exception`, which scripts may catch."""


class CheckedTraining:
    """The training in a script: its steps, its monitors, their findings.

    A verdict needs every step, so the script waits now and then until all measured steps have been
    diagnosed, also on a busy machine. Each model after the first has a subdirectory.
    """

    def __init__(self, directory: Path, steps: int) -> None:
        self.steps = 0
        self.monitors: list[Monitor] = []
        self._directory = directory
        self._max_steps = steps
        self._diagnosed = 0
        self._is_stuck = False

    def begin_step(self, count: int = 1) -> None:
        """Count a step, or several run as one, before it runs; may raise `EnoughSteps`."""
        is_enough = self.steps >= self._max_steps
        if is_enough or self.steps - self._diagnosed >= STEPS_AT_ONCE:
            self._wait()
        if is_enough:
            raise EnoughSteps
        self.steps += count

    def monitor(self, **options: Any) -> Monitor:
        """A monitor for another model; it measures every step."""
        number = len(self.monitors) + 1
        directory = self._directory if number == 1 else self._directory / f"model-{number}"
        self.monitors.append(Monitor(directory, every=1, sinks=[Store()], **options))
        return self.monitors[-1]

    @property
    def findings(self) -> list[Finding]:
        return [finding for monitor in self.monitors for finding in monitor.findings]

    @property
    def verdict(self) -> Verdict | None:
        """Whether the model learns; None if there are several."""
        return self.monitors[0].verdict if len(self.monitors) == 1 else None

    def close(self) -> None:
        """Wait for the last measurements and close the monitors."""
        self._wait()
        for monitor in self.monitors:
            monitor.close()

    def _wait(self) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not self._is_stuck and not all(m._session.is_idle for m in self.monitors):
            self._is_stuck = time.monotonic() > deadline
            time.sleep(0.001)
        self._diagnosed = self.steps
