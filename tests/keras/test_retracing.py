"""The measured and the unmeasured step are each compiled once."""

from __future__ import annotations

from typing import Any

import keras
import pytest

import gradwatch
from gradwatch.core import schedule
from tests.keras.support_behaviour import fit, linear_model

COMPILES = keras.backend.backend() != "torch"
JUST_ONCE = pytest.mark.skipif(
    not COMPILES, reason="torch runs the step's Python code at each step, and compiles nothing"
)
WATCH = [
    gradwatch.gradients(histogram=3),
    gradwatch.weights(histogram=schedule.at(2)),
    gradwatch.updates(every=4),
]


class Counting(keras.layers.Layer):
    """Counts how often its Python code is run: when tracing, or at each step on torch."""

    calls = 0

    def call(self, x: Any) -> Any:
        self.calls += 1
        return x


class CountingModel(keras.Sequential):
    """The linear model with a counting layer in front."""

    def __init__(self, layers: Any, **arguments: Any) -> None:
        super().__init__([layers[0], Counting(), *layers[1:]], **arguments)


def counted() -> tuple[Any, Counting]:
    model = linear_model(cls=CountingModel)
    layer = model.layers[0]
    layer.calls = 0
    return model, layer


@JUST_ONCE
def test_nothing_is_traced_again_over_epochs_and_fits(make_monitor: Any) -> None:
    model, layer = counted()
    monitor, keep = make_monitor(every=2, watch=WATCH)
    fit(model, 4, monitor)
    traced = layer.calls
    fit(model, 4, monitor, epochs=3)
    fit(model, 2, monitor)
    assert layer.calls == traced
    # 3, 9 and 15 for the histograms alone.
    assert keep.steps == [2, 3, 4, 6, 8, 9, 10, 12, 14, 15, 16, 18]


@JUST_ONCE
def test_measuring_every_step_traces_no_more_than_not_measuring(make_monitor: Any) -> None:
    bare, bare_layer = counted()
    fit(bare, 3, epochs=2)
    model, layer = counted()
    monitor, keep = make_monitor(every=1, watch=WATCH)
    fit(model, 3, monitor, epochs=2)
    assert keep.steps == [1, 2, 3, 4, 5, 6]
    assert layer.calls == bare_layer.calls


@JUST_ONCE
def test_measuring_no_step_traces_no_more_than_no_monitor(make_monitor: Any) -> None:
    bare, bare_layer = counted()
    fit(bare, 3)
    model, layer = counted()
    monitor, keep = make_monitor(every=schedule.never(), watch=gradwatch.gradients())
    fit(model, 3, monitor)
    assert keep.steps == []
    assert layer.calls == bare_layer.calls


def test_compiling_the_model_again_is_noticed(make_monitor: Any) -> None:
    model, _ = counted()
    monitor, keep = make_monitor(every=1, watch=gradwatch.updates("kernel"))
    fit(model, 2, monitor)
    model.compile(keras.optimizers.SGD(0.0), "mse", jit_compile=model.jit_compile)
    fit(model, 2, monitor)
    sizes = keep.series(gradwatch.Kind.UPDATE, "net/dense/kernel", "l2")
    assert sizes[0] > 0
    assert sizes[2:] == [0.0, 0.0]  # the new optimizer's learning rate is 0


def test_the_forward_pass_is_run_once_a_step(make_monitor: Any) -> None:
    """In eager mode, on every backend: nothing is computed a second time."""
    model, layer = counted()
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    fit(model, 1)
    layer.calls = 0
    fit(model, 4)
    bare, layer.calls = layer.calls, 0
    monitor, keep = make_monitor(every=1, watch=WATCH)
    fit(model, 4, monitor)
    assert keep.steps == [6, 7, 8, 9]
    assert layer.calls == bare
