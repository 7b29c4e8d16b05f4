"""Hand-written loops over Keras models, on the backend of this process."""

from __future__ import annotations

import io
from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import Kind
from tests.keras.support_behaviour import (
    BIAS,
    KERNEL,
    assert_measured,
    batch,
    copied,
    fit,
    linear_gradients,
    linear_model,
)
from tests.keras.ways import mostly_on_torch

NAMES = (KERNEL, BIAS)
only_on = {
    name: pytest.mark.skipif(keras.backend.backend() != name, reason=f"of {name}'s own")
    for name in ("tensorflow", "jax", "torch")
}


def gradients_of(model: Any, x: np.ndarray, y: np.ndarray) -> tuple[list[Any], Any]:
    """The gradients and the loss by the backend's own means."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        return tape.gradient(loss, model.trainable_variables), loss
    if backend == "torch":
        model.zero_grad()
        loss = ((model(x) - keras.ops.convert_to_tensor(y)) ** 2).mean()
        loss.backward()
        return [v.value.grad for v in model.trainable_variables], loss
    import jax
    import jax.numpy as jnp

    def compute(values: Any) -> Any:
        outputs, _ = model.stateless_call(values, [], x)
        return jnp.mean((outputs - y) ** 2)

    values = [v.value for v in model.trainable_variables]
    loss, gradients = jax.value_and_grad(compute)(values)
    return gradients, loss


@pytest.mark.parametrize("form", mostly_on_torch(["model", "list", "names"], ["model"]))
def test_gradients_of_a_model_are_recorded_under_the_paths_of_fit(
    make_monitor: Any, form: str
) -> None:
    model = linear_model()
    monitor, keep = make_monitor(every=1)
    expected = []
    for step in (1, 2):
        x, y = batch(step)
        gradients, loss = gradients_of(model, x, y)
        expected.append(linear_gradients(copied(model.variables), x, y))
        variables: Any = {
            "model": model,
            "list": model.trainable_variables,
            "names": [v.value for v in model.trainable_variables],
        }[form]
        names = model.trainable_variables if form == "names" else None
        monitor.record(gradients=gradients, variables=variables, loss=loss, names=names)
    monitor.close()
    assert keep.steps == [1, 2]
    for reading, slopes in zip(keep.readings, expected, strict=True):
        assert_measured(reading, Kind.GRADIENT, slopes)
        weights = dict(zip(NAMES, copied(model.trainable_variables), strict=True))
        assert_measured(reading, Kind.WEIGHT, weights)
        assert reading.losses()["loss"] > 0


@pytest.mark.any_backend
def test_layers_are_selected_as_in_fit(make_monitor: Any) -> None:
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(2, name="last")], name="net"
    )
    watching = [
        gradwatch.gradients(-1, "!bias"),
        gradwatch.weights(keras.layers.Dense, "!kernel"),
    ]
    monitor, keep = make_monitor(every=1, watch=watching)
    gradients, _ = gradients_of(model, *batch(1))
    monitor.record(gradients=gradients, variables=model)
    monitor.close()
    assert [str(site) for site in keep.readings[0].sites] == [
        "weight net/dense/bias",
        "gradient net/last/kernel",
        "weight net/last/bias",
    ]


@pytest.mark.any_backend
def test_totals_are_printed_in_fit_too(make_monitor: Any) -> None:
    out = io.StringIO()
    totals = gradwatch.Totals({"biases": "bias"}, every=2, file=out)
    monitor, keep = make_monitor(every=1, sinks=[totals])
    fit(linear_model(), 4, monitor)
    lines = out.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["2", "4"]
    assert "biases: sum" in lines[0]
    total = keep.readings[1].total(Kind.GRADIENT)
    assert f"model: sum {float(total.sum):.6g} l1 {float(total.sum_abs):.6g}" in lines[0]
    assert keep.readings[0].named_totals(Kind.GRADIENT)["biases"].count == 2


def test_a_monitor_serves_a_loop_and_then_fit(make_monitor: Any) -> None:
    model = linear_model()
    monitor, keep = make_monitor(watch=gradwatch.gradients(every=1))
    gradients, _ = gradients_of(model, *batch(1))
    monitor.record(gradients=gradients, variables=model)
    fit(model, 2, monitor)
    assert keep.steps == [1, 1, 2]
    assert len(keep.runs) == 2


@only_on["tensorflow"]
def test_a_tape_over_a_model_is_recorded_by_itself(make_monitor: Any) -> None:
    import tensorflow as tf

    model = linear_model()
    monitor, keep = make_monitor(every=1)
    expected = []
    for step in (1, 2, 3):
        x, y = batch(step)
        expected.append(linear_gradients(copied(model.variables), x, y))
        with monitor.tape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    monitor.close()
    assert keep.steps == [1, 2, 3]
    for reading, slopes in zip(keep.readings, expected, strict=True):
        assert_measured(reading, Kind.GRADIENT, slopes)


@only_on["tensorflow"]
@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_compiled_step_of_a_model_is_measured_without_retracing(
    make_monitor: Any, jit_compile: bool
) -> None:
    import tensorflow as tf

    model = linear_model()
    model.optimizer.build(model.trainable_variables)
    monitor, keep = make_monitor(every=1)
    traces = 0

    @tf.function(jit_compile=jit_compile)
    def train_step(x: Any, y: Any) -> Any:
        nonlocal traces
        traces += 1
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply(gradients, model.trainable_variables)
        return monitor.measure(gradients=gradients, parameters=model, loss=loss)

    expected = []
    for step in (1, 2, 3):
        x, y = batch(step)
        slopes = linear_gradients(copied(model.variables), x, y)
        readings = train_step(x, y)
        expected.append((slopes, dict(zip(NAMES, copied(model.trainable_variables), strict=True))))
        monitor.record(readings, step=step)
    monitor.close()
    assert traces == 1
    assert keep.steps == [1, 2, 3]
    for reading, (slopes, weights) in zip(keep.readings, expected, strict=True):
        assert_measured(reading, Kind.GRADIENT, slopes)
        assert_measured(reading, Kind.WEIGHT, weights)


@only_on["jax"]
def test_a_jitted_step_takes_the_arrays_it_works_on_and_the_variables_names(
    make_monitor: Any,
) -> None:
    import jax

    model = linear_model()
    monitor, keep = make_monitor(every=1)

    @jax.jit
    def stale(values: Any, x: Any) -> Any:
        return monitor.measure(gradients=values, parameters=model.trainable_variables)

    @jax.jit
    def train_step(values: Any, x: Any, y: Any) -> Any:
        def compute(values: Any) -> Any:
            outputs, _ = model.stateless_call(values, [], x)
            return jax.numpy.mean((outputs - y) ** 2)

        gradients = jax.grad(compute)(values)
        values = [v - 0.1 * g for v, g in zip(values, gradients, strict=True)]
        readings = monitor.measure(
            gradients=gradients, parameters=values, names=model.trainable_variables
        )
        return values, readings

    values = [v.value for v in model.trainable_variables]
    with pytest.raises(ValueError, match=r"names=model\.trainable_variables"):
        stale(values, 1.0)
    for step in (1, 2):
        x, y = batch(step)
        slopes = linear_gradients(values, x, y)
        values, readings = train_step(values, x, y)
        monitor.record(readings, step=step)
    monitor.close()
    assert keep.steps == [1, 2]
    assert_measured(keep.readings[-1], Kind.GRADIENT, slopes)
    assert_measured(keep.readings[-1], Kind.WEIGHT, dict(zip(NAMES, values, strict=True)))


@only_on["torch"]
def test_a_model_is_watched_through_an_optimizer_of_torchs(tmp_path: Any) -> None:
    import torch

    from tests.keras.support import Keep

    model, keep = linear_model(), Keep()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = gradwatch.watch(model, optimizer, tmp_path, every=1, sinks=[keep])
    x, y = batch(1)
    slopes = linear_gradients(copied(model.variables), x, y)
    gradients_of(model, x, y)
    optimizer.step()
    monitor.close()
    assert_measured(keep.readings[0], Kind.GRADIENT, slopes)
    weights = dict(zip(NAMES, copied(model.trainable_variables), strict=True))
    assert_measured(keep.readings[0], Kind.WEIGHT, weights)
