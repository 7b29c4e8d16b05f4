"""The training in a script: its steps and its monitors."""

from pathlib import Path
from typing import Any

from gradwatch.diagnosis import Finding, Verdict
from gradwatch.record import Monitor


class ScriptTraining:
    """The training in a script that runs to its end.

    Each model after the first has a subdirectory. `options` are those of each `Monitor`.
    """

    def __init__(self, directory: Path | None, **options: Any) -> None:
        self.steps = 0
        self.monitors: list[Monitor] = []
        self._directory = directory
        self._options = options

    def begin_step(self, count: int = 1) -> None:
        """Count a step, or several run as one, before it runs."""
        self.steps += count

    def monitor(self, *, is_torch: bool = False) -> Monitor:
        """A monitor for another model."""
        directory = self._directory
        if self.monitors:
            first = self.monitors[0].directory
            directory = first / f"model-{len(self.monitors) + 1}"
        self.monitors.append(Monitor(directory, **self._options_of(is_torch)))
        return self.monitors[-1]

    def _options_of(self, is_torch: bool) -> dict[str, Any]:
        return self._options

    @property
    def is_reported(self) -> bool:
        """Whether this process tells what came of it: of several, the first."""
        return all(monitor._session.rank.is_first for monitor in self.monitors)

    @property
    def findings(self) -> list[Finding]:
        return [finding for monitor in self.monitors for finding in monitor.findings]

    @property
    def verdict(self) -> Verdict | None:
        """Whether the model learns; None if there are several."""
        return self.monitors[0].verdict if len(self.monitors) == 1 else None

    def close(self) -> None:
        """Close the monitors."""
        for monitor in self.monitors:
            monitor.close()
