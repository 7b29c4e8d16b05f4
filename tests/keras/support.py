"""What the tests of `fit` share: a sink that keeps everything, and small data."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

import gradwatch
from gradwatch import Kind, Reading, Site
from gradwatch.sinks import RunInfo


class Keep(gradwatch.Sink):
    """Keeps every reading, in the order in which they came."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.runs: list[RunInfo] = []

    def open(self, run: RunInfo) -> None:
        self.runs.append(run)

    def write(self, reading: Reading) -> None:
        self.readings.append(reading)

    @property
    def steps(self) -> list[int]:
        """The steps that were recorded."""
        return [reading.step for reading in self.readings]

    @property
    def epochs(self) -> list[int]:
        """The epoch of each step that was recorded."""
        return [reading.epoch for reading in self.readings]

    def series(self, kind: Kind, path: str, statistic: str) -> list[float]:
        """A statistic of one site over the readings that have it."""
        site = Site(kind, path)
        return [
            float(reading.statistic(statistic)[reading.position[site]])
            for reading in self.readings
            if site in reading.position
        ]


class StatesOfSteps(keras.callbacks.Callback):
    """Copies all of the model's variables, random seeds included, around every step."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[list[np.ndarray]] = []
        self.after: list[list[np.ndarray]] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.before.append(copied(self.model.variables))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.after.append(copied(self.model.variables))


def copied(variables: Any) -> list[np.ndarray]:
    """The variables' values, safe from later steps."""
    return [np.array(keras.ops.convert_to_numpy(v.value), copy=True) for v in variables]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Normally distributed numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def classes(count: int, *shape: int, seed: int = 1) -> np.ndarray:
    """Labels from 0 to `count` - 1."""
    return np.random.default_rng(seed).integers(0, count, size=shape).astype("int32")
