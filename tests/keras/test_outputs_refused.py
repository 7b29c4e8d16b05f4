"""Outputs that cannot be seen are refused by name, and training goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch
from gradwatch import GradwatchWarning, Kind, Site
from tests.keras.cases import BATCH
from tests.keras.models import CASES
from tests.keras.support import normal
from tests.keras.ways import BACKEND, EAGERLY, WAYS, from_keras

WATCHES = [gradwatch.outputs(per_unit=True, histogram=True), gradwatch.output_gradients()]


def fit(model: Any, x: Any, y: Any, *callbacks: Any, **more: Any) -> Any:
    settings = {"batch_size": BATCH, "shuffle": False, "verbose": 0, **more}
    return model.fit(x, y, callbacks=list(callbacks), **settings)


def said(monitor: Any, model: Any, x: Any, y: Any) -> list[str]:
    with pytest.warns(GradwatchWarning) as warned:
        fit(model, x, y, monitor)
    return [str(w.message) for w in warned if w.category is GradwatchWarning]


def test_the_cell_of_a_recurrent_layer_is_refused_by_name(make_monitor: Callable[..., Any]) -> None:
    case = CASES["lstm"]()
    monitor, keep = make_monitor(every=1, watch=WATCHES)
    messages = said(monitor, case.build(), case.x, case.y)
    assert messages == [
        "Outputs of sequential/lstm/lstm_cell are not recorded: they are computed inside the loop "
        "of a recurrent layer."
    ]
    assert "sequential/lstm" in {site.path for site in keep.readings[0].sites}
    assert not any("cell" in site.path for site in keep.readings[0].sites)


class Branched(layers.Layer):
    """Calls another layer in a conditional of the framework's."""

    def __init__(self) -> None:
        super().__init__(name="branched")
        self.inner = layers.Dense(4, "tanh", name="inner")

    def build(self, shape: Any) -> None:
        self.inner.build(shape)

    def call(self, x: Any) -> Any:
        return keras.ops.cond(keras.ops.sum(x) > -1e9, lambda: self.inner(x), lambda: x)


@pytest.mark.skipif(BACKEND == "torch", reason="torch's conditionals are Python's")
@pytest.mark.parametrize("way", WAYS)
def test_a_layer_called_in_a_branch_is_refused_by_name(
    way: str, make_monitor: Callable[..., Any]
) -> None:
    model = keras.Sequential(
        [keras.Input((4,)), layers.Dense(4), Branched(), layers.Dense(1, name="after")], name="net"
    )
    model.compile("sgd", "mse", **WAYS[way])
    monitor, keep = make_monitor(every=1, watch=WATCHES)
    messages = said(monitor, model, normal(BATCH, 4), normal(BATCH, 1))
    assert messages == [
        "Outputs of net/branched/inner are not recorded: they are inside a loop, a branch or a "
        "function compiled on its own."
    ]
    paths = {site.path for site in keep.readings[0].sites}
    assert {"net/branched", "net/after"} <= paths
    assert "net/branched/inner" not in paths


@from_keras(3, 9, why="has no RematScope")
def test_what_is_rematerialised_is_refused_by_name(make_monitor: Callable[..., Any]) -> None:
    with keras.RematScope(mode="full"):
        recomputed = layers.Dense(4, "relu", name="recomputed")
    model = keras.Sequential(
        [keras.Input((4,)), recomputed, layers.Dense(1, name="plain")], name="net"
    )
    # Keras itself cannot do it in a graph of TensorFlow's.
    model.compile("sgd", "mse", jit_compile=False, run_eagerly=BACKEND == "tensorflow")
    monitor, keep = make_monitor(every=1, watch=gradwatch.output_gradients())
    messages = said(monitor, model, normal(BATCH, 4), normal(BATCH, 1))
    assert messages == [
        "Outputs of net/recomputed are not recorded: they are recomputed in the backward pass "
        "(keras.RematScope)."
    ]
    assert [site.path for site in keep.readings[0].sites] == ["net/plain"]


class ForwardMode(layers.Layer):
    """Differentiates a layer of its own forwards, which JAX cannot do through a tap."""

    def __init__(self) -> None:
        super().__init__(name="forward_mode")
        self.inner = layers.Dense(4, "tanh", name="inner")

    def build(self, shape: Any) -> None:
        self.inner.build(shape)

    def call(self, x: Any) -> Any:
        import jax

        return sum(jax.jvp(lambda z: self.inner(z), (x,), (x,)))


@pytest.mark.skipif(BACKEND != "jax", reason="only JAX tells the two modes apart")
@pytest.mark.parametrize("trained", [True, False])
def test_forward_mode_differentiation_is_not_broken_but_refused(
    trained: bool, make_monitor: Callable[..., Any]
) -> None:
    layer = ForwardMode()
    layer.trainable = trained
    model = keras.Sequential([keras.Input((4,)), layer, layers.Dense(1)], name="net")
    model.compile("sgd", "mse")
    monitor, keep = make_monitor(every=1, watch=gradwatch.output_gradients())
    messages = said(monitor, model, normal(BATCH, 4), normal(BATCH, 1))
    assert messages[0] == (
        "Outputs of net/forward_mode/inner are not recorded: they are not tensors that can be "
        "tapped but arrays of a forward-mode differentiation."
    )
    assert Site(Kind.OUTPUT_GRADIENT, "net/forward_mode") in keep.readings[0].position


@pytest.mark.parametrize("way", ["eager", *WAYS])
def test_the_gradient_of_what_a_layer_returns_as_it_is_is_refused_by_name(
    way: str, make_monitor: Callable[..., Any]
) -> None:
    inputs = keras.Input((4,))
    hidden = layers.Dense(3, name="hidden")(inputs)
    same = layers.Activation("linear", name="same")(hidden)
    model = keras.Model(inputs, layers.Add(name="sum")([hidden, same, hidden]), name="net")
    model.compile("sgd", "mse", **{**WAYS, "eager": EAGERLY}[way])
    monitor, keep = make_monitor(every=1, watch=WATCHES)
    messages = said(monitor, model, normal(BATCH, 4), normal(BATCH, 3, seed=1))
    assert messages == [
        "No gradient with respect to the outputs of same is recorded (count 0): the layer returns "
        "its input as it is, which is one tensor with one gradient. Watch the layer that it comes "
        "from."
    ]
    assert keep.series(Kind.OUTPUT_GRADIENT, "same", "count") == [0]
    assert keep.series(Kind.OUTPUT, "same", "count") == [3 * BATCH]
    assert keep.series(Kind.OUTPUT_GRADIENT, "hidden", "count") == [3 * BATCH]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="only there is a loss computed from logits")
@pytest.mark.parametrize("way", ["eager", *WAYS])
@pytest.mark.parametrize("end", ["softmax", "sigmoid"])
def test_probabilities_whose_logits_give_the_loss_are_refused_by_name(
    way: str, end: str, make_monitor: Callable[..., Any]
) -> None:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, end, name="last")], name="net")
    loss = "categorical_crossentropy" if end == "softmax" else "binary_crossentropy"
    model.compile("sgd", loss, **{**WAYS, "eager": EAGERLY}[way])
    monitor, keep = make_monitor(every=1, watch=WATCHES)
    messages = said(monitor, model, normal(BATCH, 4), np.eye(3)[np.arange(BATCH) % 3])
    assert len(messages) == 1
    assert messages[0].startswith(
        "No gradient with respect to the outputs of net/last is recorded (count 0): Keras computes "
        "this loss from the logits behind them"
    )
    assert keep.series(Kind.OUTPUT_GRADIENT, "net/last", "count") == [0]
