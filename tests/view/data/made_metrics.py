"""Runs of losses and metrics whose values are known, with settings, tags and a note."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gradwatch.core import Kind, Site
from gradwatch.store.description import Description
from tests.cli.support import Truth, make_run

STEPS, EPOCH = 40, 10
"""The steps of a run, and of each of its epochs."""


def losses(seed: int = 0) -> np.ndarray:
    """The loss of each step."""
    return 2.0 / np.arange(1, STEPS + 1) + np.random.default_rng(seed).uniform(0, 0.1, STEPS)


def metric_run(
    directory: Path, seed: int = 0, more: Truth | None = None, **told: Any
) -> dict[Site, dict[int, float]]:
    """A run with a loss at every second step, its mean of the epoch, accuracy, and validation.

    `more` are tensors to record, too, and `told` is what `run.json` says.
    """
    loss = losses(seed)
    means = [np.mean(loss[s - s % EPOCH : s + 1]) for s in range(STEPS)]
    ends = range(EPOCH, STEPS + 1, EPOCH)
    numbers: dict[Site, dict[int, float]] = {
        Site(Kind.LOSS, "loss"): {s: loss[s - 1] for s in range(2, STEPS + 1, 2)},
        Site(Kind.METRIC, "loss"): {s: means[s - 1] for s in range(1, STEPS + 1)},
        Site(Kind.METRIC, "accuracy"): {s: 1 - means[s - 1] / 3 for s in range(1, STEPS + 1)},
        Site(Kind.EPOCH_METRIC, "loss"): {s: means[s - 1] for s in ends},
        Site(Kind.EPOCH_METRIC, "val_loss"): {s: means[s - 1] + 0.25 for s in ends},
        Site(Kind.EPOCH_METRIC, "val_accuracy"): {s: 0.5 + s / 100 for s in ends},
    }
    make_run(
        directory,
        {
            site: {step: np.array([value]) for step, value in series.items()}
            for site, series in numbers.items()
        }
        | (more or {}),
    )
    description = Description(directory)
    for key, value in told.items():
        description.amend(key, value)
    description.write()
    return numbers
