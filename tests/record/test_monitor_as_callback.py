"""The monitor as a Keras callback: to `isinstance`, in copies and pickles, in several fits."""

from __future__ import annotations

import copy
import inspect
import pickle
import threading
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import numpy as np
import pytest

import gradwatch
from tests.keras.support import Keep
from tests.keras.support_behaviour import fit, linear_model

# NumPy warns about Keras's tensors, in Keras's own `convert_to_numpy`.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
HOOKS = [
    name
    for name in dir(keras.callbacks.Callback)
    if name.startswith("on_") or name in ("set_model", "set_params")
]


class Patient(gradwatch.Monitor):
    """A user's subclass with an `__init__` of its own, and a hook."""

    def __init__(self, directory: Path, patience: int) -> None:
        super().__init__(directory, every=1, sinks=[Keep()])
        self.patience = patience
        self.epochs: list[int] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_end(epoch, logs)
        self.epochs.append(epoch)


def kept(monitor: gradwatch.Monitor) -> Keep:
    """The sink of a monitor that has one."""
    return monitor._session._sinks[0]


def test_a_monitor_is_a_callback_and_a_monitor(tmp_path):
    monitor = gradwatch.Monitor(tmp_path)
    assert isinstance(monitor, keras.callbacks.Callback)
    assert isinstance(monitor, gradwatch.Monitor)
    assert not isinstance(monitor, keras.callbacks.History)
    assert type(monitor) is gradwatch.Monitor


def test_without_keras_a_monitor_is_only_a_monitor(tmp_path, run_script):
    code = """
        import sys, gradwatch
        monitor = gradwatch.Monitor(sys.argv[1])
        assert "keras" not in sys.modules
        assert monitor.__class__ is gradwatch.Monitor
        assert monitor.model is None
        import keras
        assert isinstance(monitor, keras.callbacks.Callback)
        """
    done = run_script(code, tmp_path)
    assert done.returncode == 0, done.stderr


def test_in_tf_keras_training_goes_on_and_the_notice_says_what_to_do(tmp_path):
    tf_keras = pytest.importorskip("tf_keras")
    model = tf_keras.Sequential([tf_keras.Input((3,)), tf_keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    monitor = gradwatch.Monitor(tmp_path, every=1, sinks=[Keep()])
    with pytest.warns(gradwatch.GradwatchWarning, match="models of Keras 3. Received: tf_keras"):
        model.fit(np.ones((4, 3)), np.ones((4, 1)), callbacks=[monitor], verbose=0)
    assert kept(monitor).steps == []


@pytest.mark.parametrize("hook", HOOKS)
def test_a_monitor_has_every_hook_of_a_keras_callback(tmp_path, hook):
    assert callable(getattr(gradwatch.Monitor(tmp_path), hook))


def test_keras_accepts_a_monitor_beside_other_callbacks_in_evaluate_and_predict(tmp_path):
    monitor = gradwatch.Monitor(tmp_path, every=1, sinks=[Keep()])
    model = linear_model()
    callbacks = keras.callbacks.CallbackList(
        [monitor, keras.callbacks.EarlyStopping("loss")], add_history=True, model=model, epochs=1
    )
    assert callbacks.callbacks[0] is monitor
    x = np.ones((4, 3), "float32")
    model.predict(x, callbacks=[monitor], verbose=0)
    model.evaluate(x, model.predict(x, verbose=0), callbacks=[monitor], verbose=0)
    assert kept(monitor).steps == []


def test_a_subclass_with_hooks_of_its_own_is_recorded_all_the_same(tmp_path):
    monitor = Patient(tmp_path, patience=3)
    fit(linear_model(), 2, monitor, epochs=2)
    assert monitor.epochs == [0, 1]
    assert kept(monitor).steps == [1, 2, 3, 4]
    assert isinstance(monitor, keras.callbacks.Callback)
    assert isinstance(monitor, Patient)


def pickled(monitor):
    return pickle.loads(pickle.dumps(monitor))


def cloudpickled(monitor):
    return pickle.loads(cloudpickle.dumps(monitor))


def in_a_list(monitor):
    return copy.deepcopy([keras.callbacks.EarlyStopping("loss"), monitor])[1]


ways = pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, in_a_list, pickled, cloudpickled]
)


@ways
@pytest.mark.parametrize("diagnose", [True, False])
def test_a_copy_has_the_same_arguments_and_records_a_run_of_its_own(tmp_path, duplicate, diagnose):
    monitor = gradwatch.Monitor(tmp_path, every=2, sinks=[Keep()], diagnose=diagnose)
    other = duplicate(monitor)
    assert type(other) is gradwatch.Monitor
    assert other.directory == monitor.directory
    fit(linear_model(), 4, other)
    assert kept(other).steps == [2, 4]
    assert kept(monitor).steps == []


@ways
def test_a_copy_of_a_subclass_keeps_its_attributes(tmp_path, duplicate):
    monitor = Patient(tmp_path, patience=3)
    monitor.note_of_mine = {"a": 1}
    other = duplicate(monitor)
    fit(linear_model(), 2, other)
    assert (other.patience, other.epochs, other.note_of_mine) == (3, [0], {"a": 1})
    assert kept(other).steps == [1, 2]


def test_a_copy_has_every_argument(tmp_path):
    parameters = list(inspect.signature(gradwatch.Monitor).parameters)
    monitor = gradwatch.Monitor(tmp_path, every=3, layers=["line"], stop_on="error")
    assert list(monitor._arguments) == parameters
    for duplicate in (copy.copy, copy.deepcopy, pickled, cloudpickled):
        assert duplicate(monitor)._arguments == monitor._arguments


class Recopied(keras.callbacks.Callback):
    """Copies a monitor in the middle of a training, and then trains with the copies."""

    def __init__(self, monitor, duplicate):
        super().__init__()
        self.original, self.duplicate = monitor, duplicate
        self.copies = []

    def on_train_batch_end(self, batch, logs=None):
        if batch == 2:
            self.copies.append(self.duplicate(self.original))


class Locked(gradwatch.Sink):
    """A user's sink, with a lock and, while it is open, a file."""

    def __init__(self, name, *, mode="w"):
        self.name, self.mode = name, mode
        self.lock = threading.Lock()

    def open(self, run):
        self.file = (run.directory / self.name).open(self.mode)

    def close(self):
        self.file.close()


@ways
def test_a_monitor_that_trains_or_has_trained_is_copied_as_a_fresh_one(tmp_path, duplicate):
    sinks = [
        gradwatch.Store(), gradwatch.TensorBoard(), gradwatch.CSV(), gradwatch.Console(max_rows=3),
        Locked("own.txt"),
    ]  # fmt: skip
    monitor = gradwatch.Monitor(tmp_path / "a", every=1, sinks=sinks)
    recopied = Recopied(monitor, duplicate)
    x, y = np.ones((16, 3), "float32"), np.ones((16, 1), "float32")
    linear_model().fit(x, y, batch_size=4, callbacks=[monitor, recopied], verbose=0)
    (during,) = recopied.copies
    for number, other in enumerate([during, duplicate(monitor), duplicate(during)], 2):
        assert other.directory == tmp_path / "a"
        fresh = other._session._sinks
        assert [type(sink) for sink in fresh] == [type(sink) for sink in sinks]
        assert not set(map(id, fresh)) & set(map(id, sinks))
        assert (fresh[4].name, fresh[4].mode, fresh[3].max_rows) == ("own.txt", "w", 3)
        with pytest.warns(gradwatch.GradwatchWarning, match=f"Writing to .*a-{number}"):
            fit(linear_model(), 3, other)
    for name, steps in {"a": 4, "a-2": 3, "a-3": 3, "a-4": 3}.items():
        with gradwatch.open(tmp_path / name) as run:
            assert not run.damage
            found = run.sql("select count(distinct step) from summaries").fetchall()
        assert found == [(steps,)]


def test_a_copy_calls_the_same_function_with_its_findings(tmp_path):
    class Log:
        def __init__(self):
            self.lock, self.found = threading.Lock(), []

        def add(self, finding):
            self.found.append(finding.rule)

    log = Log()
    monitor = gradwatch.Monitor(tmp_path, every=1, sinks=[Keep()], on_finding=log.add)
    monitor.log = log  # It cannot be copied, so it is shared.
    other = copy.deepcopy([monitor])[0]
    assert other._arguments["on_finding"] == log.add
    assert other.log is log


def test_a_function_that_refers_to_its_monitor_is_pickled_with_it(tmp_path):
    def tell(finding):
        return monitor.directory

    monitor = gradwatch.Monitor(tmp_path, every=5, on_finding=tell)
    other = cloudpickled(monitor)
    assert other.directory == tmp_path
    assert other._arguments["every"] == 5
    assert other._arguments["on_finding"](None) == tmp_path


def test_a_monitor_watches_a_second_fit_and_then_another_model(tmp_path):
    monitor = gradwatch.Monitor(tmp_path, every=1, sinks=[Keep()])
    first, second = linear_model(), linear_model()
    fit(first, 2, monitor)
    fit(first, 2, monitor)
    fit(second, 3, monitor)
    assert kept(monitor).steps == [1, 2, 3, 4, 1, 2, 3]
    assert monitor.model is second
