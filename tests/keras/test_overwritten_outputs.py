"""Outputs that a later layer overwrites: torch lets it, elsewhere it makes a tensor of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import gradwatch
from gradwatch import Kind, Site


class Shift(keras.layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        x += 100.0
        return x


def test_what_a_layer_returned_is_recorded_and_not_what_became_of_it(
    make_monitor: Callable[..., Any],
) -> None:
    first = keras.layers.Dense(4, name="first")
    model = keras.Sequential([keras.Input((3,)), first, Shift(name="shift"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    kernel, bias = first.get_weights()
    monitor, keep = make_monitor(every=1, watch=gradwatch.outputs())
    model.fit(x, x[:, :1], batch_size=8, verbose=0, callbacks=[monitor])

    true = x.astype("float64") @ kernel + bias
    [reading] = keep.readings
    for path, expected in (("first", true), ("shift", true + 100.0)):
        row = reading.summary[reading.position[Site(Kind.OUTPUT, f"{model.name}/{path}")]]
        np.testing.assert_allclose(
            [row.sum, row.min, row.max],
            [expected.sum(), expected.min(), expected.max()],
            rtol=1e-5,
            atol=1e-5,
        )
