"""What is recorded of a regression equals the same regression in plain NumPy.

Nothing here comes from a framework's differentiation: the gradients are written
out, and twelve steps of float64 follow the model from its first weights alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Site
from gradwatch.core import STATISTICS
from tests.keras.support import Keep, normal
from tests.keras.truth import assert_statistics
from tests.keras.ways import mostly_on_torch

pytestmark = pytest.mark.usefixtures("no_complaint")

BATCHES, BATCH, EPOCHS, FEATURES = 4, 6, 3, 5
STEPS = BATCHES * EPOCHS
RATE = 0.05
X = normal(BATCHES * BATCH, FEATURES)
START = [0.1 * normal(FEATURES, 1, seed=4), np.zeros(1, "float32")]
# Far from where it starts, so that no gradient comes near 0: of two nearly equal
# float32 weights the difference, an update, has few digits.
TARGETS = {
    "linear": 3 + normal(BATCHES * BATCH, 1, seed=5),
    "logistic": (normal(BATCHES * BATCH, 1, seed=6) > -1.5).astype("float32"),
}
KERNEL, BIAS = "regression/dense/kernel", "regression/dense/bias"


class OwnShuffle:
    """A generator with a new order of the samples in each epoch; `order` says which."""

    arguments = {"steps_per_epoch": BATCHES, "shuffle": False}  # noqa: RUF012

    def __init__(self, y: np.ndarray) -> None:
        self.order: list[np.ndarray] = []
        self._y = y

    def feed(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        random = np.random.default_rng(11)
        while True:
            for chosen in random.permutation(len(X)).reshape(BATCHES, BATCH):
                self.order.append(chosen)
                yield X[chosen], self._y[chosen]

    def training_begins(self, logs: Any = None) -> None:
        """The generator is only ever asked for what it then trains on."""


class ShuffledByKeras:
    """A `PyDataset` whose batches Keras takes in an order of its own; `order` says which."""

    arguments = {"shuffle": True}  # noqa: RUF012

    def __init__(self, y: np.ndarray) -> None:
        self.order: list[np.ndarray] = []
        self._y = y

    def feed(self) -> keras.utils.PyDataset:
        order, y = self.order, self._y

        class Recorded(keras.utils.PyDataset):
            def __len__(self) -> int:
                return BATCHES

            def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
                chosen = np.arange(index * BATCH, (index + 1) * BATCH)
                order.append(chosen)
                return X[chosen], y[chosen]

        return Recorded()

    def training_begins(self, logs: Any = None) -> None:
        """Forget the batch that Keras only looked at, to learn its shape."""
        self.order.clear()


def recorded_of_fit(kind: str, source: Any, make_monitor: Callable[..., Any]) -> Keep:
    """What is recorded while Keras trains the regression."""
    monitor, keep = make_monitor(
        every=1, watch=[gradwatch.gradients(), gradwatch.weights(), gradwatch.updates()]
    )
    activation = {"linear": None, "logistic": "sigmoid"}[kind]
    model = keras.Sequential(
        [keras.Input((FEATURES,)), keras.layers.Dense(1, activation, name="dense")],
        name="regression",
    )
    loss = {"linear": "mse", "logistic": "binary_crossentropy"}[kind]
    model.compile(keras.optimizers.SGD(RATE), loss)
    model.set_weights(START)
    begins = keras.callbacks.LambdaCallback(on_train_begin=source.training_begins)
    callbacks = [begins, monitor]
    model.fit(source.feed(), epochs=EPOCHS, verbose=0, callbacks=callbacks, **source.arguments)
    return keep


def by_hand(
    kind: str, x: np.ndarray, y: np.ndarray, kernel: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of the mean squared error, or of the logistic loss."""
    z = x @ kernel + bias
    slope = 2 * (z - y) if kind == "linear" else 1 / (1 + np.exp(-z)) - y
    return x.T @ slope / len(x), slope.mean(0)


@pytest.mark.parametrize("source", [OwnShuffle, ShuffledByKeras])
@pytest.mark.parametrize("kind", mostly_on_torch(TARGETS, ["linear"]))
def test_shuffled_epochs_of_a_regression_are_those_of_plain_numpy(
    kind: str, source: Any, make_monitor: Callable[..., Any]
) -> None:
    recorder = source(TARGETS[kind])
    keep = recorded_of_fit(kind, recorder, make_monitor)
    kernel, bias = (w.astype(np.float64) for w in START)
    assert keep.steps == list(range(1, STEPS + 1))
    assert keep.epochs == [epoch for epoch in range(1, EPOCHS + 1) for _ in range(BATCHES)]
    epochs = [tuple(map(tuple, o)) for o in np.reshape(recorder.order[:STEPS], (EPOCHS, -1, BATCH))]
    assert len(set(epochs)) == EPOCHS, "not shuffled anew in each epoch"
    for reading, chosen in zip(keep.readings, recorder.order, strict=False):
        x, y = X[chosen].astype(np.float64), TARGETS[kind][chosen].astype(np.float64)
        of_kernel, of_bias = by_hand(kind, x, y, kernel, bias)
        kernel, bias = kernel - RATE * of_kernel, bias - RATE * of_bias
        truth = {
            Site(Kind.WEIGHT, KERNEL): kernel,
            Site(Kind.GRADIENT, KERNEL): of_kernel,
            Site(Kind.UPDATE, KERNEL): -RATE * of_kernel,
            Site(Kind.WEIGHT, BIAS): bias,
            Site(Kind.GRADIENT, BIAS): of_bias,
            Site(Kind.UPDATE, BIAS): -RATE * of_bias,
        }
        assert list(reading.sites) == list(truth)
        for row, (site, values) in enumerate(truth.items()):
            recorded = {name: float(reading.statistic(name)[row]) for name in STATISTICS}
            assert_statistics(recorded, values, 1e-5, f"{site} at step {reading.step}")
