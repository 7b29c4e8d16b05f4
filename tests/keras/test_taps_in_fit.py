"""Taps in the code of layers, in `fit`."""

from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import GradwatchWarning, Kind
from tests.keras.support import Keep

_rng = np.random.default_rng(0)
X = _rng.normal(size=(16, 6)).astype("f")
Y = _rng.normal(size=(16, 1)).astype("f")
BACKEND = keras.backend.backend()


class Tapped(keras.layers.Dense):
    def call(self, inputs: Any) -> Any:
        return gradwatch.tap(super().call(inputs), f"tap/{self.name}")


class Recurrent(keras.layers.SimpleRNNCell):
    def call(self, sequence: Any, states: Any, training: bool = False) -> Any:
        output, states = super().call(sequence, states, training)
        return gradwatch.tap(output, "cell"), states


def model(**compiling: Any) -> Any:
    keras.utils.set_random_seed(0)
    layers = [
        keras.Input((6,)),
        Tapped(8, activation="tanh", name="a"),
        keras.layers.Dense(8, activation="relu"),
        Tapped(8, activation="tanh", name="b"),
        keras.layers.Dense(1),
    ]
    made = keras.Sequential(layers)
    made.compile("sgd", "mse", **compiling)
    return made


def fit(made: Any, callbacks: Any = (), epochs: int = 3) -> list[Any]:
    """Train on one batch; returns the weights before each step, and at the end."""
    states = [made.get_weights()]
    note = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: states.append(made.get_weights())
    )
    made.fit(X, Y, batch_size=16, epochs=epochs, verbose=0, callbacks=[note, *callbacks])
    return states


def truth(weights: list[Any]) -> dict[Kind, dict[str, Any]]:
    w1, b1, w2, b2, w3, b3, w4, b4 = [w.astype("f8") for w in weights]
    a = np.tanh(X.astype("f8") @ w1 + b1)
    r = np.maximum(a @ w2 + b2, 0)
    b = np.tanh(r @ w3 + b3)
    slope_b = (2 * (b @ w4 + b4 - Y) / 16) @ w4.T
    slope_a = (((slope_b * (1 - b**2)) @ w3.T) * (r > 0)) @ w2.T
    outputs, slopes = {"tap/a": a, "tap/b": b}, {"tap/a": slope_a, "tap/b": slope_b}
    return {Kind.OUTPUT: outputs, Kind.OUTPUT_GRADIENT: slopes}


WAYS = [{}] if BACKEND == "torch" else [{"jit_compile": False}, {"jit_compile": True}]
WAYS = [{}, {"jit_compile": False}] if BACKEND == "tensorflow" else WAYS[-1:]


@pytest.mark.parametrize("compiling", WAYS)
def test_taps_are_recorded_in_fit_and_training_is_the_same(
    make_monitor: Any, compiling: dict[str, Any]
) -> None:
    monitor, keep = make_monitor(every=2, watch=[gradwatch.gradients()])
    states = fit(model(**compiling), [monitor])
    expected = fit(model(**compiling))
    for a, b in zip(states[-1], expected[-1], strict=True):
        np.testing.assert_array_equal(a, b)
    steps = [reading.step for reading in keep.readings]
    assert 2 in steps
    for reading in keep.readings:
        for kind, tensors in truth(states[reading.step - 1]).items():
            found = {site.path: i for i, site in enumerate(reading.sites) if site.kind is kind}
            assert set(found) == set(tensors)
            for path, tensor in tensors.items():
                l2 = reading.statistic("l2")[found[path]]
                np.testing.assert_allclose(l2, np.linalg.norm(tensor), rtol=1e-5)


@pytest.mark.skipif(BACKEND == "torch", reason="a loop of Python: each time step is a call")
def test_a_tap_in_a_recurrent_cell_is_recorded_or_told(make_monitor: Any) -> None:
    made = keras.Sequential([keras.Input((3, 6)), keras.layers.RNN(Recurrent(4)), Tapped(1)])
    made.compile("sgd", "mse")
    keep: Keep
    monitor, keep = make_monitor(every=1, watch=[gradwatch.gradients()])
    sequences = np.repeat(X[:, None], 3, axis=1)
    if BACKEND == "jax":
        made.fit(sequences, Y, verbose=0, callbacks=[monitor])
        found = {s.path for s in keep.readings[0].sites if s.kind is Kind.OUTPUT}
        assert {"cell/0", "cell/1", "cell/2"} <= found
    else:
        with pytest.warns(GradwatchWarning, match="'cell' is not recorded: it is inside a loop"):
            made.fit(sequences, Y, verbose=0, callbacks=[monitor])


def test_a_tap_on_a_symbolic_tensor_is_told() -> None:
    inputs = keras.Input((3,))
    with pytest.warns(GradwatchWarning, match="'x' is not recorded: it is called on a KerasTensor"):
        assert gradwatch.tap(inputs, "x") is inputs


def test_a_scaled_loss_is_told(make_monitor: Any) -> None:
    monitor, _ = make_monitor(every=1, watch=[gradwatch.gradients()])
    made = model()
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(), initial_scale=2.0)
    made.compile(scaled, "mse")
    with pytest.warns(GradwatchWarning, match="Gradients of taps are those of the scaled loss"):
        fit(made, [monitor], epochs=1)


@pytest.mark.skipif(BACKEND != "jax", reason="others measure eager steps, too")
def test_an_eager_step_on_jax_is_told(make_monitor: Any) -> None:
    monitor, _ = make_monitor(every=1, watch=[gradwatch.gradients()])
    made = model(run_eagerly=True)
    with pytest.warns(GradwatchWarning, match="steps of JAX that are not compiled"):
        fit(made, [monitor], epochs=1)


class Router(keras.layers.Dense):
    def call(self, inputs: Any) -> Any:
        return gradwatch.router(super().call(inputs), "moe/router", top_k=2)


def test_the_tokens_of_experts_are_counted_exactly_in_fit(make_monitor: Any) -> None:
    keras.utils.set_random_seed(0)
    # One expert gets no token: its bias stays, as the others' do, since nothing is learned.
    bias = keras.initializers.Constant([0.0, 0.0, 0.0, -50.0, 0.0])
    made = keras.Sequential([keras.Input((6,)), Router(5, bias_initializer=bias)])
    made.compile(keras.optimizers.SGD(0.0), "mse")
    monitor, keep = make_monitor(every=2, watch=[gradwatch.gradients()])
    made.fit(X, X[:, :5], batch_size=16, epochs=2, verbose=0, callbacks=[monitor])
    kernel, offset = (np.float64(w) for w in made.get_weights())
    chosen = np.argsort(-(X.astype("f8") @ kernel + offset), axis=-1)[:, :2]
    load = np.bincount(chosen.ravel(), minlength=5)
    (reading,) = keep.readings
    found = reading.summary[reading.position[gradwatch.Site(Kind.EXPERT_LOAD, "moe/router")]]
    assert (found.count, found.zeros, found.sum) == (5, (load == 0).sum(), 32)
    assert (found.max, found.sum_squares) == (load.max(), (load.astype(float) ** 2).sum())
    assert load[3] == 0
