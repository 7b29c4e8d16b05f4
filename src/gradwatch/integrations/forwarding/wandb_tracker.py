"""Weights & Biases."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import wandb

from gradwatch.diagnosis import Finding, Severity
from gradwatch.integrations.forwarding.tracker import PREFIX, ForwardedRow, no_run

_PATIENCE = 30.0
"""Seconds in which the user's first own row tells how the run counts steps."""
_LEVELS = {Severity.INFO: "INFO", Severity.WARNING: "WARN", Severity.ERROR: "ERROR"}


class WandbTracker:
    """A run of wandb.

    The keys have the axis `gradwatch/step`. wandb's own step is the number of rows, unless the user
    gives it: `wandb.log(..., step=n)`. Then wandb drops rows whose step is below that of the newest
    row, so each row of ours would cost one of the user's. In such a run our numbers become part of
    the row that the user is writing, and the newest reading of each row stays. Until the first
    row of the user shows which it is, ours wait, for half a minute at most.
    """

    name = "wandb"
    has_histograms = has_files = True
    max_numbers = 0

    def __init__(self, run: Any | None) -> None:
        found = wandb.run if run is None else run
        if found is None:
            raise no_run("wandb", "wandb.init()")
        self._run: Any = found
        self._waiting: list[dict[str, Any]] = []
        self._patient_until = time.monotonic() + _PATIENCE
        self._is_defined = False

    def log(self, rows: Sequence[ForwardedRow]) -> None:
        if not self._is_defined:
            self._run.define_metric(f"{PREFIX}*", step_metric=f"{PREFIX}step")
            self._is_defined = True
        self._waiting += map(_encoded, rows)
        # wandb notes that steps are given before it makes the row: what is logged in between would
        # be a row of its own.
        if self._has_rows() or time.monotonic() > self._patient_until:
            self.finish()

    def finish(self) -> None:
        waiting, self._waiting = self._waiting, []
        if self._has_own_steps():
            merged = {key: value for row in waiting for key, value in row.items()}
            if merged:
                self._run.log(merged, commit=False)
            return
        for row in waiting:
            self._run.log(row)

    def alert(self, finding: Finding) -> None:
        self._run.alert(
            f"gradwatch: {finding.rule}",
            finding.text(),
            level=_LEVELS[finding.severity],
            wait_duration=0,
        )

    def file(self, path: Path) -> None:
        artifact = wandb.Artifact(f"gradwatch-{self._run.id}", type="report")
        artifact.add_file(str(path), name=path.name)
        self._run.log_artifact(artifact)

    def _has_own_steps(self) -> bool:
        """Whether the user has given a step to `wandb.log`, as wandb notes for its statistics."""
        feature = getattr(getattr(self._run, "_telemetry_obj", None), "feature", None)
        return bool(getattr(feature, "set_step_log", False))

    def _has_rows(self) -> bool:
        """Whether the run has rows already, which are the user's or of an earlier run."""
        return bool(getattr(self._run, "_local_step", 1))


def _encoded(row: ForwardedRow) -> dict[str, Any]:
    histograms = {
        key: wandb.Histogram(np_histogram=(counts.astype(np.int64).tolist(), edges.tolist()))
        for key, (counts, edges) in row.histograms.items()
    }
    return {f"{PREFIX}step": row.step, **row.numbers, **histograms}
