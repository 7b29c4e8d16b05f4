"""The flight recorder: the last readings in full, written when something breaks."""

import math
from collections import deque
from pathlib import Path
from typing import Any

from gradwatch.core import FIELDS, Reading
from gradwatch.util.files import checked_json

KEPT = 16
"""Readings; enough to see something grow."""
KEPT_LOSSES = 1000


class FlightRecorder:
    """Keeps the last readings and losses in memory, so that they can be written out."""

    def __init__(self) -> None:
        self._readings: deque[Reading] = deque(maxlen=KEPT)
        self._losses: deque[tuple[int, float]] = deque(maxlen=KEPT_LOSSES)

    def add(self, reading: Reading) -> None:
        self._readings.append(reading)

    def add_loss(self, step: int, value: float) -> None:
        """Keep the loss of a step that was not measured."""
        self._losses.append((step, value))

    def write(self, directory: Path, step: int) -> Path:
        """Write all that is kept as `flight-<step>.json`; returns where."""
        path = directory / f"flight-{step}.json"
        content = {
            "step": step,
            "fields": list(FIELDS),
            "readings": [_facts(reading) for reading in self._readings],
            "losses": [[step, _plain(value)] for step, value in self._losses],
        }
        checked_json.write(path, content)
        return path


def _facts(reading: Reading) -> dict[str, Any]:
    return {
        "step": int(reading.step),
        "epoch": int(reading.epoch),
        "time": float(reading.time),
        "group": reading.group,
        "sites": [[str(site.kind), site.path] for site in reading.sites],
        "rows": [[_plain(x) for x in row] for row in reading.summary.pack().tolist()],
    }


def _plain(value: float) -> float | str:
    """Strict JSON has no numbers that are not finite."""
    return value if math.isfinite(value) else str(value)
