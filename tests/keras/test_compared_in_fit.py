"""What `fit` records of outputs, targets and weights beside the loss, against float64 NumPy."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch
from gradwatch import Kind
from tests.keras.support import Keep

RNG = np.random.default_rng(11)
X = RNG.standard_normal((48, 6)).astype("f")


def numbers(model: Any, x: Any, y: Any, **options: Any) -> tuple[dict[str, float], Any]:
    """The numbers of the one step of a fit, and the monitor."""
    keep = Keep()
    monitor = gradwatch.Monitor(None, every=1, sinks=[keep])
    model.fit(x, y, batch_size=len(x), verbose=0, callbacks=[monitor], **options)
    [reading] = keep.readings
    [loss] = reading.losses().values()
    return {**reading.numbers(Kind.SCALAR), "loss": loss}, monitor


def dense(units: int, last: str | None, loss: Any, **options: Any) -> Any:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(units, last)])
    model.compile(keras.optimizers.SGD(0.0), loss, **options)
    return model


def entropy(shares: Any) -> float:
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())


def test_weights_of_classes_have_a_guess_of_their_own():
    labels = RNG.integers(0, 3, 48)
    weight = {0: 1.0, 1: 5.0, 2: 0.0}
    model = dense(3, "softmax", "sparse_categorical_crossentropy")
    found, _ = numbers(model, X, labels, class_weight=weight)
    given = np.array([weight[k] for k in labels])
    shares = np.bincount(labels, given) / given.sum()
    assert found["weighted_guess"] == pytest.approx(entropy(shares), rel=1e-4)
    assert found["class_guess"] == pytest.approx(entropy(np.bincount(labels) / 48), rel=1e-4)
    assert found["constant_loss"] == pytest.approx(given.mean() * entropy(shares), rel=1e-4)
    # On the scale of the loss: a model that says these shares has it.
    said = np.log(np.tile(shares[:2], (48, 1)))[np.arange(48), np.minimum(labels, 1)]
    assert -(given * said).mean() == pytest.approx(found["constant_loss"], rel=1e-4)


def variation(samples: Any) -> float:
    samples = samples.astype("float64")
    if samples.shape[1] >= 8:
        samples = samples / np.linalg.norm(samples, axis=1, keepdims=True)
    return float(np.sqrt(((samples - samples.mean(0)) ** 2).mean() / (samples**2).mean()))


def test_how_much_samples_differ_is_recorded_of_inputs_outputs_and_targets():
    y = RNG.normal(2.0, 0.3, (48, 2)).astype("f")
    model = dense(2, None, "mse")
    outputs = model.predict(X, verbose=0)
    found, _ = numbers(model, X, y)
    assert found["input_variation"] == pytest.approx(variation(X), rel=1e-4)
    assert found["output_variation"] == pytest.approx(variation(outputs), rel=1e-4)
    assert found["target_variation"] == pytest.approx(variation(y), rel=1e-4)


def test_a_target_for_several_outputs_is_counted():
    found, monitor = numbers(dense(5, None, "mse"), X, RNG.integers(0, 5, (48, 1)).astype("f"))
    assert found["outputs_of_target"] == 5.0
    assert any("class number" in each.title for each in monitor.findings)
    found, _ = numbers(dense(5, None, "mse"), X, RNG.normal(size=(48, 5)).astype("f"))
    assert "outputs_of_target" not in found


@pytest.mark.parametrize("from_logits", [False, True])
def test_of_words_the_rarer_classes_are_looked_at_by_themselves(from_logits):
    keras.utils.set_random_seed(4)
    labels = np.where(RNG.random((48, 4)) < 0.7, 0, RNG.integers(1, 5, (48, 4)))
    words = RNG.standard_normal((48, 4, 6)).astype("f")
    last = None if from_logits else "softmax"
    model = keras.Sequential([keras.Input((4, 6)), layers.Dense(5, last)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=from_logits)
    model.compile(keras.optimizers.SGD(0.0), loss)
    shares = model.predict(words, verbose=0).astype("float64").reshape(-1, 5)
    if from_logits:
        shares = np.exp(shares) / np.exp(shares).sum(1, keepdims=True)
    found, _ = numbers(model, words, labels)
    flat = labels.ravel()
    rest = flat > 0
    known = shares[rest] / (1.0 - shares[rest, :1])
    losses = -np.log(known[np.arange(rest.sum()), flat[rest]])
    assert found["rest_share"] == pytest.approx(rest.mean(), rel=1e-4)
    assert found["rest_loss"] == pytest.approx(losses.mean(), rel=1e-3)
    guess = entropy(np.bincount(flat[rest]) / rest.sum())
    assert found["rest_guess"] == pytest.approx(guess, rel=1e-3)


@pytest.mark.parametrize("shift", [0, 1])
def test_how_many_words_to_tell_are_those_given_in_their_places(shift):
    words = RNG.integers(0, 5, (48, 7)).astype("int32")
    given, targets = (words, words) if shift == 0 else (words[:, :-1], words[:, 1:])
    inputs = keras.Input((7 - shift,), dtype="int32")
    model = keras.Model(inputs, layers.Dense(5)(layers.Embedding(5, 4)(inputs)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.0), loss)
    found, _ = numbers(model, given, targets)
    assert found["copied_classes"] == pytest.approx((given == targets).mean(), rel=1e-5)


class WithStep(keras.Model):
    """A step of the user's own that returns its loss, without a metric."""

    def __init__(self) -> None:
        super().__init__()
        self.out = layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.out(x)

    if keras.backend.backend() == "tensorflow":

        def train_step(self, data: Any) -> Any:
            import tensorflow as tf

            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x) - y) ** 2)
            variables = self.trainable_variables
            self.optimizer.apply(tape.gradient(loss, variables), variables)
            return {"loss": loss}

    else:

        def train_step(self, data: Any) -> Any:
            x, y = data
            self.zero_grad()
            loss = ((self(x) - y) ** 2).mean()
            loss.backward()
            variables = self.trainable_weights
            gradients = [v.value.grad for v in variables]
            with __import__("torch").no_grad():
                self.optimizer.apply(gradients, variables)
            return {"loss": loss}


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="its own steps take the state")
def test_the_loss_that_a_step_of_ones_own_returns_is_recorded():
    y = RNG.normal(size=(48, 1)).astype("f")
    keras.utils.set_random_seed(5)
    model = WithStep()
    expected = ((model.predict(X, verbose=0).astype("float64") - y) ** 2).mean()
    model.compile(keras.optimizers.SGD(0.0))
    found, _ = numbers(model, X, y)
    assert found["loss"] == pytest.approx(expected, rel=1e-4)
