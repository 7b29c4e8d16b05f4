"""trackio."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trackio
from trackio.context_vars import current_run

from gradwatch.diagnosis import Finding, Severity
from gradwatch.integrations.forwarding.tracker import ForwardedRow, no_run

_LEVELS = {
    Severity.INFO: trackio.AlertLevel.INFO,
    Severity.WARNING: trackio.AlertLevel.WARN,
    Severity.ERROR: trackio.AlertLevel.ERROR,
}


class TrackioTracker:
    """A run of trackio."""

    name = "trackio"
    has_histograms = has_files = True
    max_numbers = 0

    def __init__(self, run: Any | None) -> None:
        found = current_run.get() if run is None else run
        if found is None:
            raise no_run("trackio", "trackio.init()")
        self._run: Any = found

    def log(self, rows: Sequence[ForwardedRow]) -> None:
        for row in rows:
            histograms = {
                key: trackio.Histogram(np_histogram=bins) for key, bins in row.histograms.items()
            }
            self._run.log({**row.numbers, **histograms}, step=row.step)

    def alert(self, finding: Finding) -> None:
        level = _LEVELS[finding.severity]
        title = f"gradwatch: {finding.rule}"
        self._run.alert(title, finding.text(), level=level, step=finding.detected)

    def finish(self) -> None:
        """trackio's own thread writes."""

    def file(self, path: Path) -> None:
        self._run.log_artifact(path, name=f"gradwatch-{self._run.id}", type="report")
