"""What the tests of behaviour share: a model whose gradients can be worked out by hand."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import keras
import numpy as np

import gradwatch
from gradwatch import Kind, Site
from tests.keras.support import normal

BATCH = 4
KERNEL, BIAS = "net/dense/kernel", "net/dense/bias"
# Keras's own variables do not know NumPy 2's way of asking for a copy.
KERAS_AND_NUMPY_2 = "ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"
EVERYTHING = (
    gradwatch.gradients(histogram=True),
    gradwatch.weights(histogram=True),
    gradwatch.updates(),
    gradwatch.applied_gradients(),
)


def copied(variables: Any) -> list[np.ndarray]:
    """The variables' values, safe from later steps."""
    return [np.array(v.numpy()) for v in variables]


class StatesOfSteps(keras.callbacks.Callback):
    """Copies all of the model's variables, random seeds included, around every step."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[list[np.ndarray]] = []
        self.after: list[list[np.ndarray]] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.before.append(copied(self.model.variables))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.after.append(copied(self.model.variables))


def linear_model(optimizer: Any = None, cls: Any = keras.Sequential, **compiling: Any) -> Any:
    """One dense layer with a squared loss, whose gradients `linear_gradients` gives."""
    layers = [keras.Input((3,)), keras.layers.Dense(2, name="dense")]
    model = cls(layers, name="net")
    # XLA takes TensorFlow seconds per test; `test_unchanged_training` and the truth's have it.
    quickly = {"jit_compile": False} if keras.backend.backend() == "tensorflow" else {}
    model.compile(optimizer or keras.optimizers.SGD(0.1), "mse", **(quickly | compiling))
    return model


def batches(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Data for the linear model: that many batches."""
    return normal(count * BATCH, 3), normal(count * BATCH, 2, seed=1)


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    """The batch of a step, counted from 1, in a fit that does not shuffle."""
    rows = slice((step - 1) * BATCH, step * BATCH)
    x, y = batches(step)
    return x[rows], y[rows]


def fit(model: Any, count: int, *callbacks: Any, **fitting: Any) -> Any:
    """Fit on that many batches, in order."""
    x, y = batches(count)
    settings = {"batch_size": BATCH, "shuffle": False, "verbose": 0} | fitting
    return model.fit(x, y, callbacks=list(callbacks), **settings)


def linear_gradients(weights: Any, x: Any, y: Any) -> dict[str, np.ndarray]:
    """The gradients of the mean squared error, in float64, by the textbook."""
    kernel, bias, x, y = (np.asarray(a, "float64") for a in (*weights[:2], x, y))
    errors = 2.0 * (x @ kernel + bias - y) / y.size
    return {KERNEL: x.T @ errors, BIAS: errors.sum(axis=0)}


def assert_measured(reading: Any, kind: Kind, expected: Any, rtol: float = 1e-5) -> None:
    """The reading's summaries of the kind are those of the expected arrays, by path."""
    found = {s.path: i for s, i in reading.position.items() if s.kind is kind}
    assert set(found) == set(expected)
    for path, array in expected.items():
        wanted = np.asarray(array, "float64")
        scale = float(np.linalg.norm(wanted)) or 1.0
        truth = {
            "count": wanted.size,
            "sum": wanted.sum(),
            "l1": np.abs(wanted).sum(),
            "l2": np.linalg.norm(wanted),
            "min": wanted.min(),
            "max": wanted.max(),
        }
        for name, value in truth.items():
            measured = reading.statistic(name)[found[path]]
            np.testing.assert_allclose(
                measured, value, rtol=rtol, atol=rtol * scale, err_msg=f"{kind} {path} {name}"
            )


def named(values: Any) -> dict[str, np.ndarray]:
    """Values of the linear model's variables by path."""
    return {path: np.asarray(x, "float64") for path, x in zip((KERNEL, BIAS), values, strict=True)}


def change(before: Any, after: Any) -> dict[str, np.ndarray]:
    """The change of the linear model's variables by path."""
    start, end = named(before), named(after)
    return {path: end[path] - start[path] for path in start}


def counts(reading: Any, kind: Kind, path: str) -> int:
    """How many elements a site had in a reading."""
    return int(reading.summary.count[reading.position[Site(kind, path)]])


def ours(warned: Any) -> list[str]:
    """Our own among the warnings that were given."""
    return [str(w.message) for w in warned if w.category is gradwatch.GradwatchWarning]


def csv_rows(directory: Path) -> list[dict[str, str]]:
    """The rows of a run's table."""
    with (directory / "summaries.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def csv_steps(directory: Path) -> list[int]:
    """The steps in a run's table, in the order written, each once."""
    return list(dict.fromkeys(int(row["step"]) for row in csv_rows(directory)))
