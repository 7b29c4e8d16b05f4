"""On torch, a step of `fit` that is not finite names its first tensor, measured or not."""

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch.diagnosis import diagnose

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="compiled steps are run again instead"
)
STEP = 5


class Odd(keras.layers.Layer):
    """Does something odd in its call `STEP` of the training."""

    def __init__(self, what):
        super().__init__(name="odd")
        self.what = what
        self.calls = 0

    def call(self, x, training=False):
        self.calls += bool(training)
        return self.what(x) if training and self.calls == STEP else x


def fitted(tmp_path, what, monitored=True, x=None, weights=None):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(8, activation="tanh", name="first")(inputs)
    outputs = keras.layers.Dense(1, name="last")(Odd(what)(hidden))
    model = keras.Model(inputs, outputs)
    model.compile("adam", "mse")
    data = np.random.default_rng(0).normal(size=(64, 4)).astype("float32") if x is None else x
    monitor = gradwatch.Monitor(tmp_path, every=1000, sinks=[gradwatch.Store()])
    callbacks = [monitor] if monitored else []
    how = {"batch_size": 8, "verbose": 0, "shuffle": False, "callbacks": callbacks}
    model.fit(data, data[:, :1], sample_weight=weights, **how)
    return model, monitor.findings


def square_root(x):
    return keras.ops.sqrt(x * 0.0)


@pytest.mark.parametrize(
    ("what", "title"),
    [
        (lambda x: x * float("nan"), "NaN in step 5, first in output odd."),
        (square_root, "NaN in step 5, first in output_gradient first, computed by odd."),
    ],
)
def test_the_layer_that_makes_nan_is_named(tmp_path, what, title):
    _, findings = fitted(tmp_path, what)
    found = next(f for f in findings if f.rule == "non-finite")
    assert (found.title, found.since, found.layer) == (title, STEP, "odd")
    replayed = diagnose(gradwatch.open(tmp_path)).findings
    assert found.title in [f.title for f in replayed]


def test_nan_in_the_data_is_told_from_nan_of_a_layer(tmp_path):
    x = np.ones((64, 4), "float32")
    x[STEP * 8 - 3, 2] = np.nan
    _, findings = fitted(tmp_path, lambda x: x, x=x)
    found = next(f for f in findings if f.rule == "non-finite")
    assert (found.title, found.since) == ("NaN in step 5, first in input input.", STEP)


def test_a_loss_that_is_nan_is_told_from_nan_of_a_layer(tmp_path):
    weights = np.ones(64, "float32")
    weights[STEP * 8 - 3] = np.nan
    _, findings = fitted(tmp_path, lambda x: x, weights=weights)
    found = next(f for f in findings if f.rule == "non-finite")
    assert (found.title, found.since) == ("NaN in step 5, first in the loss.", STEP)


def test_a_loss_that_is_nan_but_for_its_gradient_is_told(tmp_path):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    y = x[:, :1].copy()
    y[STEP * 8 - 3] = 1e4

    def loss(y, output):
        is_odd = keras.ops.cast(y > 1e3, "float32")
        return keras.ops.square((1 - is_odd) * y - output) + 0 * keras.ops.log(1 - is_odd)

    model.compile("adam", loss)
    monitor = gradwatch.Monitor(tmp_path, every=1000, sinks=[gradwatch.Store()])
    model.fit(x, y, batch_size=8, verbose=0, shuffle=False, callbacks=[monitor])
    found = next(f for f in monitor.findings if f.rule == "non-finite")
    assert found.title == "NaN in step 5, first in the loss."


@pytest.mark.parametrize("what", [lambda x: x, square_root])
def test_weights_are_the_same_in_every_bit(tmp_path, what):
    bare, _ = fitted(tmp_path / "bare", what, monitored=False)
    watched, _ = fitted(tmp_path / "watched", what)
    for one, other in zip(bare.get_weights(), watched.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert "call" not in vars(watched.get_layer("first"))
