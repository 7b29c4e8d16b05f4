"""Small Keras models, each with data for three batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import layers

BATCH, STEPS = 16, 3


class Model(NamedTuple):
    """How to build a model, compiled, and its data."""

    build: Callable[[], Any]
    x: Any
    y: Any
    tolerances: tuple[float, ...] = (1e-5,) * STEPS
    """By how much the summaries of each step may differ, for the engine's own rounding."""


def _compiled(net: Any, loss: str = "mse", optimizer: Any = None) -> Any:
    net.compile(optimizer or keras.optimizers.SGD(0.05, momentum=0.9), loss)
    return net


def _normal(*shape: int) -> Any:
    return np.random.default_rng(3).normal(size=(BATCH * STEPS, *shape)).astype("float32")


def plain() -> Model:
    """Dense layers, and Adam."""

    def build() -> Any:
        net = keras.Sequential(
            [keras.Input((6,)), layers.Dense(8, "relu"), layers.Dense(4)], name="net"
        )
        return _compiled(net, optimizer=keras.optimizers.Adam(0.01))

    return Model(build, _normal(6), _normal(4))


def batch_norm() -> Model:
    """Statistics of the whole batch, moving averages, and units that die."""

    def build() -> Any:
        net = keras.Sequential(
            [
                keras.Input((6, 6, 2)),
                layers.Conv2D(4, 3, use_bias=False),
                layers.BatchNormalization(),
                layers.ReLU(),
                layers.Flatten(),
                layers.Dense(4),
            ],
            name="net",
        )
        return _compiled(net)

    return Model(build, _normal(6, 6, 2), _normal(4))


def embedding() -> Model:
    """A gradient of a table, to which only the words of the batch contribute."""

    def build() -> Any:
        net = keras.Sequential(
            [
                keras.Input((5,), dtype="int32"),
                layers.Embedding(40, 8),
                layers.GlobalAveragePooling1D(),
                layers.Dense(4),
            ],
            name="net",
        )
        return _compiled(net)

    words = np.random.default_rng(5).integers(0, 40, size=(BATCH * STEPS, 5))
    return Model(build, words.astype("int32"), _normal(4))


def mixed_precision() -> Model:
    """float16 with loss scaling.

    Devices round the gradients of their parts of the batch to float16 before they are added
    up. In the first step all numbers are such that nothing is rounded.
    """

    def build() -> Any:
        halves = keras.initializers.Constant(0.5)
        with_halves = {"kernel_initializer": halves, "dtype": "mixed_float16"}
        net = keras.Sequential(
            [
                keras.Input((6,)),
                layers.Dense(8, "relu", **with_halves),
                layers.Dense(4, **with_halves),
            ],
            name="net",
        )
        inner = keras.optimizers.SGD(2.0**-5)
        scaled = keras.optimizers.LossScaleOptimizer(inner, initial_scale=16.0)
        return _compiled(net, optimizer=scaled)

    signs = np.random.default_rng(9).integers(-1, 2, size=(BATCH * STEPS, 10)).astype("float32")
    return Model(build, signs[:, :6], signs[:, 6:], (1e-5, 5e-3, 5e-3))


MODELS = {each.__name__: each for each in (plain, batch_norm, embedding, mixed_precision)}
