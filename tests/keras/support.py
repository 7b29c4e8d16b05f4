"""What the tests of `fit` share: a sink that keeps everything, and small data."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

import gradwatch
from gradwatch import Kind, Reading, Site
from gradwatch.core import SiteFilter
from gradwatch.sinks import RunInfo

_torch_random: Any = None
if keras.backend.backend() == "torch":
    from torch import random as _torch_random


class Keep(gradwatch.Sink):
    """Keeps every reading, in the order in which they came.

    `readings` are what was measured, without the kinds in `left_out`, and `reports` what the
    training itself reported.
    """

    def __init__(self, left_out: Collection[Kind] = ()) -> None:
        self._without = SiteFilter(lambda site: site.kind in left_out)
        self.readings: list[Reading] = []
        self.reports: list[Reading] = []
        self.runs: list[RunInfo] = []

    def open(self, run: RunInfo) -> None:
        self.runs.append(run)

    def write(self, reading: Reading) -> None:
        if reading.is_report:
            self.reports.append(reading)
        elif len(kept := self._without(reading)):
            self.readings.append(kept)

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


@dataclass(frozen=True)
class State:
    """All that a training step starts from, the optimizer aside.

    Attributes:
        values: those of `model.variables`, the random seeds among them.
        torch_random: torch's own random state, from which Keras draws dropout there.
    """

    values: list[np.ndarray]
    torch_random: Any

    @classmethod
    def of(cls, model: Any) -> State:
        """A copy of the model's state, safe from later steps."""
        values = [np.array(keras.ops.convert_to_numpy(v)) for v in model.variables]
        return cls(values, _torch_random.get_rng_state() if _torch_random else None)

    def restore(self, model: Any) -> None:
        """Put the model back into this state."""
        for variable, value in zip(model.variables, self.values, strict=True):
            variable.assign(value)
        if _torch_random:
            _torch_random.set_rng_state(self.torch_random)

    def by_variable(self, model: Any) -> dict[int, np.ndarray]:
        """The values by the variable's id."""
        return {id(v): x for v, x in zip(model.variables, self.values, strict=True)}


class StatesOfSteps(keras.callbacks.Callback):
    """Keeps the model's state before and after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[State] = []
        self.after: list[State] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.before.append(State.of(self.model))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.after.append(State.of(self.model))


def seed_everything() -> None:
    """Start from the same random numbers and the same layer names."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(7)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Normally distributed numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def classes(count: int, *shape: int, seed: int = 1) -> np.ndarray:
    """Labels from 0 to `count` - 1."""
    return np.random.default_rng(seed).integers(0, count, size=shape).astype("int32")


def drawn() -> list[float]:
    """What every random generator in reach gives next."""
    numbers = [random.random(), np.random.rand()]
    numbers.append(float(keras.ops.convert_to_numpy(keras.random.uniform(()))))
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        numbers.append(float(tf.random.uniform(())))
    if keras.backend.backend() == "torch":
        import torch

        numbers.append(float(torch.rand(())))
    return numbers
