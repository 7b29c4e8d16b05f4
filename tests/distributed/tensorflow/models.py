"""Four models for steps that several replicas run, each with its data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers

BATCH = 8


@dataclass(frozen=True)
class Task:
    """A model to be made under a strategy, and two batches for it."""

    make: Callable[[], Any]
    x: np.ndarray
    y: np.ndarray
    policy: str = "float32"


@contextmanager
def making(task: Task, strategy: Any) -> Iterator[None]:
    """Where a task's model is made: under the strategy, always from the same seed."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(5)
    keras.config.set_dtype_policy(task.policy)
    try:
        with strategy.scope():
            yield
    finally:
        keras.config.set_dtype_policy("float32")


def tasks() -> dict[str, Task]:
    """A plain one, one with BatchNormalization, an embedding, and mixed precision."""
    random = np.random.default_rng(3)
    x = random.normal(size=(2 * BATCH, 4)).astype("float32")
    y = np.tanh(x[:, :1] - x[:, 1:2])
    words = random.integers(0, 9, size=(2 * BATCH, 5)).astype("int32")
    # Small whole numbers and their halves are exact in 16 bits, however they are added up.
    whole = random.integers(-2, 3, size=(BATCH, 4)).astype("float32")
    return {
        "plain": Task(_plain, x, y),
        "batch_norm": Task(_batch_norm, x, y),
        "embedding": Task(_embedding, words, y),
        "mixed": Task(_halves, whole, whole[:, :1], "mixed_float16"),
    }


def _plain() -> Any:
    return keras.Sequential(
        [keras.Input((4,)), layers.Dense(6, "relu"), layers.Dense(5, "tanh"), layers.Dense(1)]
    )


def _batch_norm() -> Any:
    # Synchronised: else each replica normalises by its own half of the batch, which is
    # another function than that of one device.
    norm = layers.BatchNormalization(synchronized=True)
    return keras.Sequential(
        [keras.Input((4,)), layers.Dense(6, use_bias=False), norm, layers.ReLU(), layers.Dense(1)]
    )


def _embedding() -> Any:
    return keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            layers.Embedding(12, 3),
            layers.GlobalAveragePooling1D(),
            layers.Dense(1),
        ]
    )


def _halves() -> Any:
    halves = keras.initializers.Constant(0.5)
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(3, "relu", kernel_initializer=halves, bias_initializer=halves),
            layers.Dense(1, kernel_initializer=halves, dtype="float32"),
        ]
    )
