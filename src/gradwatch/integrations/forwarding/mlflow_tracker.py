"""MLflow."""

import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

import mlflow
from mlflow.entities import Metric

from gradwatch.diagnosis import Finding
from gradwatch.integrations.forwarding.tracker import ForwardedRow, no_run

MAX_METRICS = 1000
"""How many metrics MLflow takes in one call."""
_LONGEST_KEY = 250
_LONGEST_TAG = 5000
_FORBIDDEN = re.compile(r"[^\w\-. :/]", re.ASCII)


class MlflowTracker:
    """A run of MLflow. It has no histograms; findings become tags."""

    name = "mlflow"
    has_histograms = False
    has_files = True
    max_numbers = MAX_METRICS

    def __init__(self, run: Any | None) -> None:
        found = mlflow.active_run() if run is None else run
        if found is None:
            raise no_run("mlflow", "mlflow.start_run()")
        self._id: str = found.info.run_id
        self._client = mlflow.MlflowClient()
        self._findings = 0

    def log(self, rows: Sequence[ForwardedRow]) -> None:
        metrics = [
            Metric(valid_key(key), number, int(1000 * row.time), row.step)
            for row in rows
            for key, number in row.numbers.items()
        ]
        for start in range(0, len(metrics), MAX_METRICS):
            self._client.log_batch(self._id, metrics=metrics[start : start + MAX_METRICS])

    def alert(self, finding: Finding) -> None:
        self._findings += 1
        key = f"gradwatch.finding.{self._findings:02d}"
        self._client.set_tag(self._id, key, finding.text()[:_LONGEST_TAG])

    def finish(self) -> None:
        """Nothing waits."""

    def file(self, path: Path) -> None:
        self._client.log_artifact(self._id, str(path), "gradwatch")


@lru_cache(maxsize=10_000)
def valid_key(key: str) -> str:
    """The key in the characters that MLflow allows; two keys stay two.

    >>> valid_key("gradwatch/model/gradient_l2")
    'gradwatch/model/gradient_l2'
    >>> valid_key("gradwatch/größe")
    'gradwatch/gr__e-ade333b3'
    """
    valid = _FORBIDDEN.sub("_", key)
    valid = "/".join(part if part.strip(".") else "_" for part in valid.split("/"))
    if valid == key and len(key) <= _LONGEST_KEY and posixpath.normpath(key) == key:
        return key
    ending = f"-{crc32(key.encode('utf-8', 'surrogatepass')):08x}"
    return valid[: _LONGEST_KEY - len(ending)] + ending
