"""TensorFlow's graph optimizer does to a measured step what it does to the model's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
from keras import layers

import gradwatch
from tests.keras.support import classes, normal, seed_everything
from tests.keras.support_behaviour import EVERYTHING, KERAS_AND_NUMPY_2, copied
from tests.keras.ways import BACKEND

pytestmark = [
    pytest.mark.filterwarnings(KERAS_AND_NUMPY_2),
    pytest.mark.skipif(BACKEND != "tensorflow", reason="it is TensorFlow's"),
]
OUTPUTS = [*EVERYTHING, gradwatch.outputs(), gradwatch.output_gradients()]


def block(inputs: Any, filters: int) -> Any:
    """Of a ResNet: a sum of what batch normalisation adds up itself."""
    x = layers.Conv2D(filters, 3, padding="same")(inputs)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same")(x))
    return layers.ReLU()(layers.Add()([x, inputs]))


def residual() -> Any:
    inputs = keras.Input((8, 8, 3))
    x = layers.Conv2D(4, 3, padding="same")(inputs)
    x = layers.GlobalAveragePooling2D()(block(block(x, 4), 4))
    return keras.Model(inputs, layers.Dense(3, "softmax")(x))


def bias_and_activation() -> Any:
    """A product, its bias and its activation, which become one kernel."""
    inputs = keras.Input((8, 8, 3))
    x = layers.Activation("relu")(layers.Conv2D(4, 3)(inputs))
    x = layers.Activation("sigmoid")(layers.Dense(5)(layers.Flatten()(x)))
    return keras.Model(inputs, layers.Dense(3, "softmax")(x))


@pytest.mark.parametrize("build", [residual, bias_and_activation])
@pytest.mark.parametrize("optimizer", ["sgd", pytest.param("adam", marks=pytest.mark.slow)])
def test_a_graph_trains_to_the_same_bits(
    build: Callable[[], Any], optimizer: str, make_monitor: Any
) -> None:
    def train(*callbacks: Any) -> tuple[Any, Any]:
        seed_everything()
        model = build()
        model.compile(optimizer, "sparse_categorical_crossentropy", jit_compile=False)
        x, y = normal(32, 8, 8, 3), classes(3, 32)
        history = model.fit(x, y, batch_size=8, verbose=0, callbacks=list(callbacks)).history
        return history, [
            v.tobytes() for v in copied([*model.variables, *model.optimizer.variables])
        ]

    bare = train()
    for arguments in ({"every": 1}, {"every": 2, "watch": OUTPUTS}):
        monitor, keep = make_monitor(**arguments)
        assert train(monitor) == bare
        assert len(keep.steps) in (2, 4)
