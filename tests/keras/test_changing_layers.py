"""Layers that assign their own weights in the training step: updates are after minus before."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import Kind
from tests.keras.support_behaviour import fit


class Values(keras.callbacks.Callback):
    """The weights before each step and after it, as NumPy arrays by path."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[dict[str, np.ndarray]] = []
        self.after: list[dict[str, np.ndarray]] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.before.append(self._values())

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.after.append(self._values())

    def _values(self) -> dict[str, np.ndarray]:
        return {v.path: np.array(keras.ops.convert_to_numpy(v)) for v in self.model.weights}


class Halving(keras.layers.Dense):
    """A dense layer that halves its kernel whenever it is called in training."""

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            self.kernel.assign(self.kernel * 0.5)
        return super().call(inputs, training=training)


class Shrinking(keras.layers.Dense):
    """The same by `assign_sub`, twice."""

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            self.kernel.assign_sub(self.kernel * 0.25)
            self.kernel.assign_sub(self.kernel * 0.25)
        return super().call(inputs, training=training)


LAYERS = {
    "spectral": lambda: keras.layers.SpectralNormalization(keras.layers.Dense(3), name="changing"),
    "assign": lambda: Halving(3, name="changing"),
    "assign_sub": lambda: Shrinking(3, name="changing"),
    "constraint": lambda: keras.layers.Dense(
        3, kernel_constraint=keras.constraints.MaxNorm(0.1), name="changing"
    ),
}


@pytest.mark.parametrize("eagerly", [False, True])
@pytest.mark.parametrize("layer", LAYERS)
def test_updates_are_the_whole_change_of_the_step(
    make_monitor: Any, layer: str, eagerly: bool
) -> None:
    model = keras.Sequential(
        [keras.Input((3,)), LAYERS[layer](), keras.layers.Dense(2, name="last")], name="net"
    )
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=eagerly, jit_compile=False)
    monitor, keep = make_monitor(every=1, watch=[gradwatch.updates(), gradwatch.weights()])
    values = Values()
    fit(model, 3, monitor, values, epochs=2)
    kernels = [v.path for v in model.trainable_variables]
    assert len(keep.readings) == len(values.before) == 6
    for path in kernels:
        changes = [
            a[path].astype("float64") - b[path]
            for a, b in zip(values.after, values.before, strict=True)
        ]
        norms = [np.linalg.norm(change) for change in changes]
        found = keep.series(Kind.UPDATE, path, "l2")
        np.testing.assert_allclose(found, norms, rtol=1e-5, atol=1e-7, err_msg=path)
        minima = [change.min() for change in changes]
        np.testing.assert_allclose(
            keep.series(Kind.UPDATE, path, "min"), minima, rtol=1e-4, atol=1e-7, err_msg=path
        )
    assert all("assign" not in vars(v) for v in model.variables)
