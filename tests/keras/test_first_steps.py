"""The measured step runs all first steps of a small model: Keras's own need not be compiled yet."""

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch.capture.keras import first_steps
from gradwatch.capture.keras.slow_start import FirstCalls

pytestmark = pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="torch does not compile the step of fit"
)


class Counted(keras.layers.Layer):
    """Counts how often it is traced."""

    traced = 0

    def call(self, x):
        type(self).traced += 1
        return x


class Steps(gradwatch.Sink):
    def __init__(self):
        self.steps = []

    def write(self, reading):
        if not reading.is_report:
            self.steps.append(reading.step)


def trained(*monitors, steps=40, nan_at=None, fits=1):
    """The weights after training, and how often the model was traced in all fits."""
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(4, activation="relu"), Counted(), keras.layers.Dropout(0.3)]
    model = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(1)])
    model.compile("adam", "mse")
    x = np.random.default_rng(0).normal(size=(steps * 8, 3)).astype("float32")
    if nan_at is not None:
        x[(nan_at - 1) * 8] = np.nan
    before = Counted.traced
    for _ in range(fits):
        given = [each() for each in monitors]
        model.fit(x, x[:, :1], batch_size=8, callbacks=given, verbose=0, shuffle=False)
    return [np.asarray(w) for w in model.get_weights()], Counted.traced - before


def equal(some, others):
    for a, b in zip(some, others, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(autouse=True)
def long_compiling(monkeypatch):
    """Compiling takes longer than all steps."""
    monkeypatch.setattr(FirstCalls, "compile_seconds", float("inf"))


def test_a_short_fit_compiles_no_more_by_default_than_if_every_step_is_measured(tmp_path):
    seen = Steps()
    bare, _ = trained()
    default, traced = trained(lambda: gradwatch.Monitor(tmp_path / "a", sinks=[seen]))
    every, traced_by_every = trained(lambda: gradwatch.Monitor(tmp_path / "b", every=1))
    assert traced == traced_by_every
    assert 20 <= len(seen.steps) < 40, "only what is due is sent"
    equal(default, bare)
    equal(every, bare)


def test_after_many_steps_the_own_step_is_compiled(tmp_path, monkeypatch):
    _, traced = trained(lambda: gradwatch.Monitor(tmp_path / "a", sinks=[]))
    monkeypatch.setattr(first_steps, "MOST", 3)
    bare, _ = trained()
    weights, traced_with_own = trained(lambda: gradwatch.Monitor(tmp_path / "b", sinks=[]))
    assert traced_with_own > traced
    equal(weights, bare)


def test_further_fits_do_not_begin_again(tmp_path, monkeypatch):
    monkeypatch.setattr(first_steps, "MOST", 25)
    names = iter("abcd")
    make = lambda: gradwatch.Monitor(tmp_path / next(names), sinks=[])  # noqa: E731
    _, in_one = trained(make)
    bare, _ = trained(fits=2)
    weights, in_two = trained(make, fits=2)
    assert in_two > in_one, "the own step is compiled in the second fit"
    equal(weights, bare)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="only JAX tells what is compiled")
def test_a_model_that_has_trained_before_runs_its_own_step(tmp_path, monkeypatch):
    covered = []
    cover = first_steps.FirstSteps.cover
    monkeypatch.setattr(
        first_steps.FirstSteps,
        "cover",
        lambda self, observer: covered.append(cover(self, observer)) or covered[-1],
    )
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((320, 3), "float32")
    model.fit(x, x[:, :1], batch_size=8, verbose=0)
    monitor = gradwatch.Monitor(tmp_path)
    model.fit(x, x[:, :1], batch_size=8, verbose=0, callbacks=[monitor])
    assert covered
    assert not any(covered)


@pytest.mark.filterwarnings("ignore::gradwatch.util.reporter.GradwatchWarning")
def test_nan_in_a_step_that_is_not_due_is_traced_to_its_origin(tmp_path):
    seen, found = Steps(), []
    trained(lambda: gradwatch.Monitor(tmp_path, sinks=[seen], on_finding=found.append), nan_at=23)
    (finding,) = (f for f in found if f.rule == "non-finite")
    assert finding.title.startswith("NaN in step 23, first in input")
