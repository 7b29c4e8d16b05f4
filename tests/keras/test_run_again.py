"""A step that was not measured is run again if it went wrong, and training does not notice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import gradwatch
from gradwatch.diagnosis import diagnose
from tests.keras.twins.compare import is_same

pytestmark = pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="where steps are compiled"
)
STEPS, AT = 64, 47


class LogOfZero(keras.layers.Layer):
    """Counts its calls; at one of them it computes the logarithm of 0."""

    def build(self, shape: Any) -> None:
        self.count = self.add_weight(shape=(), dtype="int32", trainable=False, name="count")

    def call(self, x: Any) -> Any:
        self.count.assign(self.count + 1)
        return x + 0 * ops.log(1 - ops.cast(ops.equal(self.count.value, AT), x.dtype))


class BadUpdate(keras.optimizers.SGD):
    """Makes the update of one kernel NaN, at one step."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        super().update_step(gradient, variable, learning_rate)
        if "last/kernel" in getattr(variable, "path", variable.name):
            now = ops.cast(ops.equal(self._iterations.value, AT - 1), variable.dtype)
            variable.assign(variable + 0 / (1 - now))


def train(callbacks: list[Any], *, trap: bool = False, optimizer: Any = "adam") -> Any:
    """A training with dropout; returns the model."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4,))
    y = keras.layers.Dense(6, activation="tanh", name="first")(inputs)
    y = LogOfZero(name="trap")(y) if trap else y
    y = keras.layers.Dense(1, name="last")(keras.layers.Dropout(0.5, seed=2)(y))
    model = keras.Model(inputs, y)
    model.compile(optimizer, "mse", metrics=["mae"], jit_compile=keras.backend.backend() == "jax")
    x = np.random.default_rng(0).normal(size=(4 * STEPS, 4)).astype("float32")
    model.fit(x, x[:, :1], batch_size=4, shuffle=False, verbose=0, callbacks=callbacks)
    return model


def state(model: Any) -> list[np.ndarray]:
    variables = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    return [ops.convert_to_numpy(v.value) for v in variables]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"trap": True}, f"NaN in step {AT}, first in output trap."),
        ({"optimizer": BadUpdate}, f"NaN in step {AT}, first in update last/kernel."),
    ],
    ids=["forward", "optimizer"],
)
@pytest.mark.filterwarnings("ignore::gradwatch.util.reporter.GradwatchWarning")
def test_nan_in_a_step_that_was_not_measured_names_its_first_tensor(
    tmp_path: Path, how: dict[str, Any], words: str
) -> None:
    def arguments() -> dict[str, Any]:
        return {name: x() if callable(x) else x for name, x in how.items()}

    monitor = gradwatch.Monitor(tmp_path / "run")
    watched = train([monitor], **arguments())
    (found,) = (f for f in monitor.findings if f.rule == "non-finite")
    assert found.title == words
    run = gradwatch.open(tmp_path / "run")
    assert [f.title for f in diagnose(run).findings if f.rule == "non-finite"] == [words]
    assert AT in run.measured_steps
    pairs = zip(state(watched), state(train([], **arguments())), strict=True)
    assert all(is_same(*pair) for pair in pairs)


def test_a_step_that_is_not_all_computation_is_not_run_again(tmp_path: Path) -> None:
    calls: list[int] = []

    class Tells(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            _call_host(lambda: calls.append(1))
            return x

    monitor = gradwatch.Monitor(tmp_path / "run", every=10, diagnose=False)
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), Tells(), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=keras.backend.backend() == "jax")
    x = np.ones((4 * 40, 4), "float32")
    x[4 * 25] = np.nan
    model.fit(x, x[:, :1], batch_size=4, shuffle=False, verbose=0, callbacks=[monitor])
    assert len(calls) == 40


def _call_host(function: Any) -> None:
    if keras.backend.backend() == "jax":
        import jax

        jax.debug.callback(function)
    else:
        import tensorflow as tf

        tf.py_function(function, [], [])


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="TensorFlow is asked when it copies")
def test_a_state_that_is_too_large_to_keep_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradwatch.capture.keras.again import jax_rerunner

    rerunner = jax_rerunner.JaxRerunner(None)
    args = ([np.ones(30, np.float32)], [], [], []), iter(())
    assert rerunner.copy_state(None, args) is not None
    monkeypatch.setattr(jax_rerunner, "MOST_STATE", 100)
    assert rerunner.copy_state(None, args) is None
