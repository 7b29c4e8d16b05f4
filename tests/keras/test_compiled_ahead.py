"""Under a budget, nobody waits until the measured step is compiled."""

import io

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch.capture.keras import fit_capture
from gradwatch.capture.keras.ahead import compiled_ahead
from gradwatch.capture.keras.backends import make_backend
from gradwatch.watches import Timetable

pytestmark = pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="torch does not compile the step of fit"
)


class Steps(gradwatch.Sink):
    def __init__(self):
        self.steps = []

    def write(self, reading):
        if not reading.is_report:
            self.steps.append(reading.step)


class Gate(keras.callbacks.Callback):
    """Compiles what a thread would compile, before a batch; or when it is waited for."""

    def __init__(self, monkeypatch, opens_before):
        super().__init__()
        self._opens_before = opens_before
        self._works = []
        monkeypatch.setattr(compiled_ahead, "QUICK", dict.fromkeys(compiled_ahead.QUICK, -1.0))
        monkeypatch.setattr(compiled_ahead.leaving, "start", self._start)
        # Where tensors are measured on the host, what measures them there is not waited for long.
        backend = type(make_backend(keras.Model()))
        monkeypatch.setattr(backend, "on_host", lambda backend, model: None)

    def on_train_batch_begin(self, batch, logs=None):
        if batch == self._opens_before:
            self.join()

    def _start(self, work, name):
        self._works.append(work)
        return self

    def join(self):
        while self._works:
            self._works.pop()()

    def is_alive(self):
        return bool(self._works)


def trained(monitor=None, gate=None, nan_at=None, steps=12):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, activation="relu"),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    x = np.random.default_rng(0).normal(size=(steps * 8, 3)).astype("float32")
    if nan_at is not None:
        x[(nan_at - 1) * 8] = np.nan
    callbacks = [each for each in (gate, monitor) if each is not None]
    model.fit(x, x[:, :1], batch_size=8, callbacks=callbacks, verbose=0, shuffle=False)
    return [np.asarray(w) for w in model.get_weights()]


def test_steps_are_measured_from_when_the_measured_step_is_compiled(tmp_path, monkeypatch):
    seen, printed = Steps(), io.StringIO()
    sinks = [seen, gradwatch.Console(file=printed)]
    monitor = gradwatch.Monitor(tmp_path / "run", sinks=sinks)
    weights = trained(monitor, Gate(monkeypatch, opens_before=5))
    assert seen.steps == list(range(6, 13))
    assert monitor.cost.measured_steps == 7
    assert "7 of 12 steps measured" in printed.getvalue()
    for own, bare in zip(weights, trained(), strict=True):
        np.testing.assert_array_equal(own, bare)


def test_a_fit_that_ends_before_is_not_measured(tmp_path, monkeypatch):
    seen, printed = Steps(), io.StringIO()
    monitor = gradwatch.Monitor(tmp_path, sinks=[seen, gradwatch.Console(file=printed)])
    weights = trained(monitor, Gate(monkeypatch, opens_before=99))
    assert seen.steps == []
    assert "fit ended before the measured step was compiled" in printed.getvalue()
    assert monitor.cost.measured_steps == 0
    for own, bare in zip(weights, trained(), strict=True):
        np.testing.assert_array_equal(own, bare)


def test_steps_that_the_user_has_chosen_wait_for_it(tmp_path, monkeypatch):
    seen = Steps()
    gate = Gate(monkeypatch, opens_before=99)
    trained(gradwatch.Monitor(tmp_path, every=4, sinks=[seen]), gate)
    assert seen.steps == [4, 8, 12]


def test_a_watch_with_a_schedule_of_its_own_waits_for_it(tmp_path, monkeypatch):
    seen = Steps()
    watch = [gradwatch.gradients(), gradwatch.weights(every=4)]
    monitor = gradwatch.Monitor(tmp_path, watch=watch, sinks=[seen])
    trained(monitor, Gate(monkeypatch, opens_before=99))
    assert seen.steps[0] == 4


class Counted(keras.layers.Layer):
    """Counts how often it is traced."""

    traced = 0

    def call(self, x):
        type(self).traced += 1
        return x


def test_another_monitor_uses_what_was_compiled(tmp_path):
    model = keras.Sequential([keras.Input((3,)), Counted(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((16, 3), "float32")

    def fit(*monitors):
        before = Counted.traced
        model.fit(x, x[:, :1], batch_size=8, callbacks=list(monitors), verbose=0)
        return Counted.traced - before

    def monitor(name, **options):
        return gradwatch.Monitor(tmp_path / name, **options)

    first = monitor("a")
    assert fit(first) > 0
    assert fit(monitor("b")) == fit(monitor("c", every=1)) == 0
    for name, steps in {"a": [1, 2], "b": [3, 4], "c": [5, 6]}.items():
        run = gradwatch.open(tmp_path / name)
        assert list(run.measured_steps) == steps
        weights = run.series("weight", "dense/kernel", "l2")
        assert len(weights) == 2
    assert fit(monitor("d", watch=gradwatch.gradients())) > 0, "other watches"
    assert fit(monitor("e"), monitor("f")) > 0, "two at once"
    fit(first)
    assert list(gradwatch.open(tmp_path / "a").measured_steps[-2:]) == [11, 12]
    model.compile("sgd", "mse")
    assert fit(monitor("g")) > 0, "compiled again"


@pytest.mark.parametrize(("after", "is_compiled"), [(30, False), (25, True)])
def test_the_step_that_measures_less_is_compiled_only_if_training_is_not_short(
    tmp_path, monkeypatch, after, is_compiled
):
    monkeypatch.setattr(fit_capture, "LESSER_FROM", after)
    monkeypatch.setattr(Timetable, "is_whole", lambda timetable, moment: moment.step <= 20)
    gate, keep = Gate(monkeypatch, opens_before=99), Steps()
    trained(gradwatch.Monitor(tmp_path, every=1, sinks=[keep]), gate, steps=30)
    assert gate.is_alive() == is_compiled
    assert keep.steps == list(range(1, 31))


@pytest.mark.filterwarnings("ignore::gradwatch.util.reporter.GradwatchWarning")
def test_steps_that_are_run_again_wait_for_it(tmp_path, monkeypatch):
    monitor = gradwatch.Monitor(tmp_path)
    gate = Gate(monkeypatch, opens_before=99)
    trained(monitor, gate, nan_at=9, steps=40)
    assert not gate.is_alive()
    (found,) = (f for f in monitor.findings if f.rule == "non-finite")
    assert found.title.startswith("NaN in step 9, first in input")
