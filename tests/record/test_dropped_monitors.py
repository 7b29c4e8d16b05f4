"""A monitor that nobody holds closes itself, without losing what was measured."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref

import keras
import numpy as np
import pytest

import gradwatch
from tests.keras.support_behaviour import linear_model
from tests.variants import rarely

PATIENCE = 60.0


class Interrupt(keras.callbacks.Callback):
    """Ctrl-C in the middle of a step's callbacks."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 2:
            signal.raise_signal(signal.SIGINT)


_earlier: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def threads_of_earlier_tests():
    """A tracker that is held up in another test keeps its thread for a while."""
    _earlier.clear()
    _earlier.update(threading.enumerate())


def own_threads():
    shared = {"gradwatch-run", "gradwatch-seal", "gradwatch-sync"}
    names = [t.name for t in threading.enumerate() if t not in _earlier]
    return [name for name in names if name.startswith("gradwatch") and name not in shared]


def wait_for(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, own_threads()
        gc.collect()  # Again: a reading that is being made holds its session.
        time.sleep(0.01)


def interrupted_fit(directory, model, **options):
    x, y = np.ones((64, 3), "float32"), np.ones((64, 1), "float32")
    monitor = gradwatch.Monitor(directory, every=1, **options)
    try:
        model.fit(x, y, batch_size=4, callbacks=[monitor, Interrupt()], verbose=0)
    except KeyboardInterrupt:
        return
    raise AssertionError("was not interrupted")


def steps_of(directory):
    with gradwatch.open(directory) as run:
        assert not run.damage
        return [
            step for (step,) in run.sql("select distinct step from summaries order by 1").fetchall()
        ]


@pytest.mark.parametrize("is_kept", [False, *rarely(True)], ids=["model dropped", "model kept"])
def test_interrupted_fits_whose_monitors_were_dropped_leave_no_threads(tmp_path, is_kept):
    models = [linear_model() for _ in range(6)]
    for number in range(6):
        interrupted_fit(tmp_path / str(number), models[number])
        if not is_kept:
            models[number] = None
    wait_for(lambda: not own_threads())
    for number in range(6):
        assert steps_of(tmp_path / str(number)) == [1, 2, 3]


def test_a_callback_of_the_users_that_holds_the_monitor_does_not_keep_it(tmp_path):
    def train():
        monitor = gradwatch.Monitor(
            tmp_path, every=1, on_finding=lambda finding: print(monitor.directory)
        )
        monitor.record(gradients={"a": np.ones(3)})

    train()
    wait_for(lambda: not own_threads())
    assert steps_of(tmp_path) == [1]


def test_a_dropped_monitor_releases_its_directory(tmp_path):
    def train(step):
        monitor = gradwatch.Monitor(tmp_path / "a", every=1)
        monitor.record(gradients={"a": np.ones(3)}, step=step)
        return monitor.directory.name

    assert train(1) == "a"
    gc.collect()
    assert train(2) == "a"
    wait_for(lambda: not own_threads())
    assert steps_of(tmp_path / "a") == [1, 2]


def test_a_watched_optimizer_holds_its_monitor_and_a_dropped_one_neither_it_nor_its_model(tmp_path):
    torch = pytest.importorskip("torch")

    def train():
        module = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        gradwatch.watch(module, optimizer, tmp_path, every=1)
        for _ in range(3):
            gc.collect()
            optimizer.zero_grad()
            module(torch.ones(2, 3)).square().mean().backward()
            optimizer.step()
        assert own_threads()
        return weakref.ref(module)

    module = train()
    wait_for(lambda: not own_threads() and module() is None)
    assert steps_of(tmp_path) == [1, 2, 3]


class Collecting(gradwatch.Sink):
    """Collects garbage on its own thread, within a lock of its own."""

    def __init__(self):
        self.lock = threading.Lock()

    def write(self, reading):
        with self.lock:
            gc.collect()


def test_a_monitor_that_is_collected_on_a_thread_of_its_sink_is_closed(tmp_path):
    gc.disable()
    try:
        monitor = gradwatch.Monitor(tmp_path, every=1, sinks=[gradwatch.Store(), Collecting()])
        monitor.itself = monitor  # A cycle: only the collector finds it.
        for _ in range(3):
            monitor.record(gradients={"a": np.ones(3)})
        del monitor
        until = time.monotonic() + PATIENCE
        while own_threads():
            assert time.monotonic() < until, own_threads()
            time.sleep(0.01)
    finally:
        gc.enable()
    assert steps_of(tmp_path) == [1, 2, 3]


def test_a_monitor_dropped_just_before_the_end_of_the_process_is_written(tmp_path, run_script):
    code = """
        import gc, sys, gradwatch
        import numpy as np
        monitor = gradwatch.Monitor(sys.argv[1], every=1)
        for _ in range(100):
            monitor.record(gradients={"a": np.ones(3)})
        del monitor
        gc.collect()
        """
    done = run_script(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert steps_of(tmp_path) == list(range(1, 101))
