"""Confident predictions, whose loss Keras may compute from the logits behind them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch
from tests.keras.support import seed_everything
from tests.keras.support_behaviour import KERAS_AND_NUMPY_2
from tests.keras.ways import EAGERLY, WAYS, mostly_on_torch, usual_way_first

pytestmark = pytest.mark.filterwarnings(KERAS_AND_NUMPY_2)
LOSSES = {"softmax": "sparse_categorical_crossentropy", "sigmoid": "binary_crossentropy"}
MONITORS: dict[str, dict[str, Any]] = {
    "default": {},
    "outputs": {"every": 1, "watch": [gradwatch.outputs(), gradwatch.gradients()]},
}


def train(end: str, compiling: dict[str, Any], *callbacks: Any) -> list[float]:
    """The loss of six steps from weights that saturate the last layer."""
    seed_everything()
    units = 10 if end == "softmax" else 1
    model = keras.Sequential(
        [keras.Input((20,)), layers.Dense(32, "relu"), layers.Dense(units, activation=end)]
    )
    model.layers[-1].kernel.assign(keras.ops.convert_to_numpy(model.layers[-1].kernel) * 60)
    model.compile(keras.optimizers.SGD(0.1), LOSSES[end], **compiling)
    random = np.random.default_rng(0)
    x = random.normal(size=(256, 20)).astype("f4")
    y = random.integers(0, max(units, 2), 256)
    fitting = {"batch_size": 256, "epochs": 6, "shuffle": False, "verbose": 0}
    return model.fit(x, y, callbacks=list(callbacks), **fitting).history["loss"]


@pytest.mark.parametrize("end", mostly_on_torch(LOSSES, ["softmax"]))
@pytest.mark.parametrize("way", usual_way_first())
def test_saturated_training_is_the_same_with_and_without_the_monitor(
    end: str, way: str, make_monitor: Any
) -> None:
    compiling = {**WAYS, "eager": EAGERLY}[way]
    bare = train(end, compiling)
    for arguments in MONITORS.values():
        monitor, keep = make_monitor(**arguments)
        watched = train(end, compiling, monitor)
        assert keep.steps
        if way == "xla":
            np.testing.assert_allclose(watched, bare, rtol=1e-6)
        else:
            assert watched == bare
