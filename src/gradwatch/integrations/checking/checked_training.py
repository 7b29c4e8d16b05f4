"""The training in a script that is ended after some steps."""

import time
from pathlib import Path
from typing import Any

from gradwatch.integrations.checking.script_training import ScriptTraining
from gradwatch.sinks import Store
from gradwatch.watches import gradients, outputs, updates, weights

TIMEOUT = 60.0
"""Seconds to wait for a measurement that hangs, once."""
STEPS_AT_ONCE = 16
"""After so many steps, wait until they are diagnosed: a long queue would drop some."""


class EnoughSteps(BaseException):
    """Ends a script after the requested steps. Not an `Exception`, which scripts may catch."""


class CheckedTraining(ScriptTraining):
    """The first steps of a script, all of which are measured.

    A verdict needs every step, so the script waits now and then until all measured steps have been
    diagnosed, also on a busy machine.
    """

    def __init__(self, directory: Path, steps: int) -> None:
        super().__init__(directory)
        self._max_steps = steps
        self._diagnosed = 0
        self._is_stuck = False

    def begin_step(self, count: int = 1) -> None:
        """Count a step; may raise `EnoughSteps`."""
        is_enough = self.steps >= self._max_steps
        if is_enough or self.steps - self._diagnosed >= STEPS_AT_ONCE:
            self._wait()
        if is_enough:
            raise EnoughSteps
        super().begin_step(count)

    def _options_of(self, is_torch: bool) -> dict[str, Any]:
        options: dict[str, Any] = {"every": 1, "sinks": [Store()]}
        if is_torch:
            options["watch"] = [gradients(), weights(), updates(), outputs(per_unit=True)]
        return options

    def close(self) -> None:
        """Wait for the last measurements and close the monitors."""
        self._wait()
        super().close()

    def _wait(self) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not self._is_stuck and not all(m._session.is_idle for m in self.monitors):
            self._is_stuck = time.monotonic() > deadline
            time.sleep(0.001)
        self._diagnosed = self.steps
