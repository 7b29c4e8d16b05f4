"""Outputs of a Keras model's layers in hand-written loops, on the backend of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch
from gradwatch import GradwatchWarning, Kind, Reading, Site
from gradwatch.capture.keras.layers import inside_recurrent, model_layers
from gradwatch.core import STATISTICS
from tests.keras.cases import BATCH
from tests.keras.models import CASES
from tests.keras.output_truth import true_outputs
from tests.keras.support import State, normal, seed_everything
from tests.keras.truth import assert_statistics

BACKEND = keras.backend.backend()
WAYS = {"tensorflow": ["eager", "graph", "xla"], "jax": ["eager", "jit"], "torch": ["eager"]}[
    BACKEND
]
MODELS = [
    "sequential_mlp",
    "sequential_cnn_with_batch_norm",
    "functional_in_sequential_in_subclassed",
    "layer_used_twice",
    "embedding_with_repeated_indices_and_mask",
    "two_layers_of_one_name",
]
# JAX compiles each operation apart: one model will do.
# Keras on TensorFlow computes the loss from the logits behind these.
BYPASSED = {"embedding_with_repeated_indices_and_mask": ("sequential/dense",)}
if BACKEND != "tensorflow":
    BYPASSED = {}
COMBINATIONS = [
    (name, way)
    for name in MODELS
    for way in WAYS
    if way != "eager" or BACKEND == "torch" or name == "layer_used_twice"
]
WATCHES = [gradwatch.outputs(per_unit=True), gradwatch.output_gradients()]


class Loop:
    """A loop of the backend's own over a model, with a measured step.

    Args:
        model: compiled and built.
        monitor: a monitor; None to train without.
        way: how the step is run, see WAYS.
    """

    def __init__(self, model: Any, monitor: Any, way: str) -> None:
        self.model, self.monitor, self.way = model, monitor, way
        self.traces = 0
        self._training = {"training": True} if model._call_has_training_arg else {}
        make = {"tensorflow": self._in_tensorflow, "jax": self._in_jax, "torch": self._in_torch}
        self.step: Callable[[Any, Any], None] = make[BACKEND]()

    def _loss(self, x: Any, y: Any, y_pred: Any) -> Any:
        return self.model.compute_loss(x=x, y=y, y_pred=y_pred, training=True)

    def _measured(self, compute: Callable[[], Any]) -> tuple[Any, Any]:
        """What it computes, and the outputs seen meanwhile."""
        self.traces += 1
        if self.monitor is None:
            return compute(), None
        with self.monitor.outputs_of(self.model) as seen:
            result = compute()
        return result, seen

    def _in_tensorflow(self) -> Any:
        import tensorflow as tf

        model, monitor = self.model, self.monitor
        variables = model.trainable_variables
        # Or the function is traced twice: once to make them.
        model.optimizer.build(variables)

        def differentiate(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = self._loss(x, y, model(x, **self._training))
            return tape.gradient(loss, variables)

        def train(x: Any, y: Any) -> Any:
            gradients, seen = self._measured(lambda: differentiate(x, y))
            model.optimizer.apply(gradients, variables)
            if monitor is None:
                return {}
            return monitor.measure(gradients=gradients, parameters=variables, outputs=seen)

        if self.way != "eager":
            train = tf.function(train, jit_compile=self.way == "xla", autograph=True)

        def step(x: Any, y: Any) -> None:
            readings = train(tf.constant(x), tf.constant(y))
            if monitor is not None:
                monitor.record(readings)

        return step

    def _in_jax(self) -> Any:
        import jax

        model, monitor = self.model, self.monitor

        def train(values: Any, others: Any, x: Any, y: Any) -> Any:
            def loss(values: Any) -> Any:
                y_pred, new = model.stateless_call(values, others, x, **self._training)
                return self._loss(x, y, y_pred), new

            compute = jax.value_and_grad(loss, has_aux=True)
            ((_, others), gradients), seen = self._measured(lambda: compute(values))
            after = [v - 0.1 * g for v, g in zip(values, gradients, strict=True)]
            names = model.trainable_variables
            readings = {}
            if monitor is not None:
                readings = monitor.measure(
                    gradients=gradients, parameters=after, names=names, outputs=seen
                )
            return after, others, readings

        if self.way == "jit":
            train = jax.jit(train)

        def step(x: Any, y: Any) -> None:
            values = [v.value for v in model.trainable_variables]
            others = [v.value for v in model.non_trainable_variables]
            values, others, readings = train(values, others, x, y)
            for variable, value in zip(model.trainable_variables, values, strict=True):
                variable.assign(value)
            for variable, value in zip(model.non_trainable_variables, others, strict=True):
                variable.assign(value)
            if monitor is not None:
                monitor.record(readings)

        return step

    def _in_torch(self) -> Any:
        import torch

        model, monitor = self.model, self.monitor

        def step(x: Any, y: Any) -> None:
            model.zero_grad()
            target = keras.ops.convert_to_tensor(y)
            _, seen = self._measured(
                lambda: self._loss(x, target, model(x, **self._training)).backward()
            )
            if monitor is not None:
                monitor.record(variables=model, outputs=seen)
            with torch.no_grad():
                for variable in model.trainable_variables:
                    if variable.value.grad is not None:
                        variable.value.sub_(0.1 * variable.value.grad)

        return step


def recorded(reading: Reading, site: Site) -> dict[str, float]:
    row = reading.position[site]
    return {name: float(reading.statistic(name)[row]) for name in STATISTICS}


def known_layers(model: Any) -> dict[str, Any]:
    cells = inside_recurrent(model)
    return {m.path: m.layer for m in model_layers(model) if id(m.layer) not in cells}


@pytest.mark.parametrize(("name", "way"), COMBINATIONS)
def test_outputs_and_their_gradients_are_the_true_ones(
    name: str, way: str, make_monitor: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    case = CASES[name]()
    model = case.build()
    x, y = case.x[:BATCH], case.y[:BATCH]
    model(x)
    monitor, keep = make_monitor(every=1, watch=WATCHES)
    loop = Loop(model, monitor, way)
    states = []
    for _ in range(2):
        states.append(State.of(model))
        loop.step(x, y)
    monitor.close()
    assert keep.steps == [1, 2]
    complaints = [r.getMessage() for r in caplog.records if r.name == "gradwatch"]
    bypassed = BYPASSED.get(name, ())
    assert len(complaints) == len(bypassed)
    for said, path in zip(complaints, bypassed, strict=True):
        assert f"outputs of {path} is recorded (count 0): Keras computes this loss" in said
    assert loop.traces == (2 if way == "eager" else 1)
    assert not any("call" in vars(layer) for layer in model._flatten_layers())
    truth = true_outputs(model, known_layers(model), states[1], (x, y, None))
    reading = keep.readings[1]
    assert {s.path for s in reading.sites if s.kind is Kind.OUTPUT} == set(truth)
    for path, (output, gradient) in truth.items():
        assert_statistics(recorded(reading, Site(Kind.OUTPUT, path)), output, 1e-5, path)
        got = recorded(reading, Site(Kind.OUTPUT_GRADIENT, path))
        assert gradient.size == (0 if path in bypassed else output.size)
        assert_statistics(got, gradient, 1e-5, f"gradient {path}")
        if output.ndim > 1:
            dead = np.all(output == 0, axis=tuple(range(output.ndim - 1)))
            assert recorded(reading, Site(Kind.DEAD_UNIT, path))["sum"] == dead.sum()


def small() -> Any:
    seed_everything()
    model = keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dense(6, "relu", name="a"),
            layers.BatchNormalization(name="norm"),
            layers.Dropout(0.3, name="drop"),
            layers.Dense(2, name="b"),
        ],
        name="net",
    )
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


@pytest.mark.parametrize("way", WAYS)
def test_the_last_layers_gradient_is_that_of_the_closed_form(
    way: str, make_monitor: Callable[..., Any]
) -> None:
    model = keras.Sequential([keras.Input((5,)), layers.Dense(2, name="line")], name="net")
    model.compile(keras.optimizers.SGD(0.1), "mse")
    kernel, bias = (np.asarray(w, np.float64) for w in model.get_weights())
    x, y = normal(BATCH, 5), normal(BATCH, 2, seed=3)
    monitor, keep = make_monitor(every=1, watch=WATCHES)
    Loop(model, monitor, way).step(x, y)
    monitor.close()
    output = x.astype("f8") @ kernel + bias
    got = recorded(keep.readings[0], Site(Kind.OUTPUT, "net/line"))
    assert_statistics(got, output, 1e-5, "output")
    got = recorded(keep.readings[0], Site(Kind.OUTPUT_GRADIENT, "net/line"))
    assert_statistics(got, 2 * (output - y) / y.size, 1e-5, "gradient")


@pytest.mark.parametrize("way", WAYS)
def test_training_is_the_same_with_outputs_watched(
    way: str, make_monitor: Callable[..., Any]
) -> None:
    left = []
    for watched in (True, False):
        model = small()
        monitor, _ = make_monitor(every=2, watch=WATCHES)
        loop = Loop(model, monitor if watched else None, way)
        for step in range(4):
            loop.step(normal(BATCH, 5, seed=step), normal(BATCH, 2, seed=9 + step))
        monitor.close()
        left.append(State.of(model).values)
    # XLA may fuse a measured step differently.
    tolerance = 1e-6 if way in ("xla", "jit") else 0.0
    for ours, theirs in zip(*left, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.any_backend
def test_layers_are_chosen_and_prefixed_as_in_fit(make_monitor: Callable[..., Any]) -> None:
    model = small()
    monitor, keep = make_monitor(
        every=1, watch=[gradwatch.outputs(layers.Dropout), gradwatch.output_gradients(-1, "norm")]
    )
    x = keras.ops.convert_to_tensor(normal(BATCH, 5))
    with monitor.outputs_of(model, group="critic") as seen:
        model(x)
        assert [x.name for x in model.layers if "call" in vars(x)] == ["norm", "drop", "b"]
    with pytest.warns(GradwatchWarning, match="backward pass does not reach"):
        monitor.record(outputs=seen, group="critic")
    monitor.close()
    assert [str(site) for site in keep.readings[0].sites] == [
        "output_gradient critic/net/norm",
        "output critic/net/drop",
        "output_gradient critic/net/b",
    ]


@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_leave_is_refused_by_name(way: str, make_monitor: Callable[..., Any]) -> None:
    if BACKEND == "jax" and way == "eager":
        pytest.skip("slow, and of no other kind")
    model = keras.Sequential([keras.Input((4, 3)), layers.LSTM(3), layers.Dense(1)], name="net")
    model.compile(keras.optimizers.SGD(0.1), "mse")
    monitor, keep = make_monitor(every=1, watch=WATCHES)
    loop = Loop(model, monitor, way)
    with pytest.warns(GradwatchWarning) as said:
        loop.step(normal(BATCH, 4, 3), normal(BATCH, 1))
    monitor.close()
    assert [str(w.message) for w in said if w.category is GradwatchWarning] == [
        "Outputs of net/lstm/lstm_cell are not recorded: they are computed inside the loop of a "
        "recurrent layer."
    ]
    assert {s.path for s in keep.readings[0].sites if s.kind is Kind.OUTPUT} == {
        "net/lstm",
        "net/dense",
    }


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
@pytest.mark.parametrize("way", [way for way in WAYS if way != "eager"])
def test_a_layer_called_in_a_branch_is_refused_by_name(
    way: str, make_monitor: Callable[..., Any]
) -> None:
    model = keras.Sequential([keras.Input((4,)), Branched(), layers.Dense(1)], name="net")
    model.compile(keras.optimizers.SGD(0.1), "mse")
    monitor, keep = make_monitor(every=1, watch=WATCHES)
    loop = Loop(model, monitor, way)
    with pytest.warns(GradwatchWarning) as said:
        loop.step(normal(BATCH, 4), normal(BATCH, 1))
    monitor.close()
    assert [str(w.message) for w in said if w.category is GradwatchWarning] == [
        "Outputs of net/branched/inner are not recorded: they are inside a loop, a branch or a "
        "function compiled on its own."
    ]
    found = {s.path for s in keep.readings[0].sites if s.kind is Kind.OUTPUT}
    assert found == {"net/branched", "net/dense"}


@pytest.mark.any_backend
def test_a_layer_that_does_not_exist_is_an_error_with_near_misses(
    make_monitor: Callable[..., Any],
) -> None:
    model = small()
    monitor, _ = make_monitor(every=1, watch=gradwatch.outputs("dropp"))
    with monitor.outputs_of(model) as seen:
        model(normal(BATCH, 5))
    with pytest.raises(ValueError, match=r"outputs\('dropp'\).*layers.*Closest: net/drop"):
        monitor.record(outputs=seen)
    with pytest.raises(TypeError, match="not the model"):
        monitor.record(outputs=model)
    with pytest.raises(TypeError, match="Keras 3 model"):
        monitor.outputs_of(model.layers[0])


@pytest.mark.skipif(BACKEND != "jax", reason="of JAX's own")
def test_forward_mode_goes_on_and_is_refused_by_name(make_monitor: Callable[..., Any]) -> None:
    import jax

    model = small()
    monitor, _ = make_monitor(every=1, watch=WATCHES)
    x = normal(BATCH, 5)
    expected = jax.jvp(model, (x,), (x,))
    with monitor.outputs_of(model) as seen:
        found = jax.jvp(model, (x,), (x,))
    with pytest.warns(GradwatchWarning) as said:
        monitor.record(outputs=seen)
    assert all("forward-mode" in str(w.message) for w in said)
    assert "Outputs of net/a, net/norm, net/drop, net/b are not recorded" in str(said[0].message)
    np.testing.assert_array_equal(found, expected)
    assert not any("call" in vars(layer) for layer in model._flatten_layers())
