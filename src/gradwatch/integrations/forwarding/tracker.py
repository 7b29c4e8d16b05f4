"""What a tracker is to us."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gradwatch.diagnosis import Finding

Bins = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Counts, and their edges, of which there is one more."""

PREFIX = "gradwatch/"
"""Of all keys, so that none is mixed up with the user's."""
TRACKERS = ("wandb", "mlflow", "trackio")


@dataclass(frozen=True)
class ForwardedRow:
    """What is forwarded of one reading; keys begin with `PREFIX`."""

    step: int
    time: float
    numbers: Mapping[str, float]
    histograms: Mapping[str, Bins] = field(default_factory=dict)


class Tracker(Protocol):
    """A run of an experiment tracker; methods are called on one background thread."""

    name: str
    has_histograms: bool
    has_files: bool
    max_numbers: int
    """How many numbers it takes in one call; 0 if it takes one row at a time."""

    def log(self, rows: Sequence[ForwardedRow]) -> None:
        """Log some rows: all of them or, if this raises, none; one at least, however long."""

    def alert(self, finding: Finding) -> None:
        """Show a finding as the tracker shows alerts."""

    def finish(self) -> None:
        """Log what waits; more may follow."""

    def file(self, path: Path) -> None:
        """Keep a file with the run."""


class FunctionTracker:
    """A function `log(numbers, step)` of the user."""

    name = "log"
    has_histograms = has_files = False
    max_numbers = 0

    def __init__(self, log: Callable[[dict[str, float], int], object]) -> None:
        self._log = log
        self.name = getattr(log, "__name__", type(log).__name__)

    def log(self, rows: Sequence[ForwardedRow]) -> None:
        for row in rows:
            self._log(dict(row.numbers), row.step)

    def alert(self, finding: Finding) -> None:
        """A function of numbers has no place for it."""

    def finish(self) -> None:
        """Nothing waits."""

    def file(self, path: Path) -> None:
        """A function of numbers has no place for it."""


def no_run(name: str, how: str) -> RuntimeError:
    """The error if the user has not begun a run of the tracker."""
    return RuntimeError(
        f"Forward({name!r}) found no active run of {name}. Call {how} before training, or give "
        "the run itself: gradwatch.Forward(run)."
    )
