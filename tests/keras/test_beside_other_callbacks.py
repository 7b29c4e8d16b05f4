"""The monitor among Keras's own callbacks, in any order."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from tests.keras.support import Keep
from tests.keras.support_behaviour import KERAS_AND_NUMPY_2, batches, copied, fit, linear_model
from tests.keras.ways import ANY_BACKEND, mostly_on_torch

pytestmark = pytest.mark.filterwarnings(KERAS_AND_NUMPY_2)

FIRST_ORDER, *OTHER_ORDERS = permutations(range(3))
ORDERS = [FIRST_ORDER, *(pytest.param(each, marks=ANY_BACKEND) for each in OTHER_ORDERS)]


class Interrupts(keras.callbacks.Callback):
    """Stops the process, as it were, within an epoch."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self._epoch = epoch
        self._now = -1

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._now = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self._now, batch) == (self._epoch, 1):
            raise KeyboardInterrupt


@pytest.mark.parametrize("first", mostly_on_torch(["backup", "monitor"], ["backup"]))
def test_a_run_that_backup_and_restore_resumes_has_the_right_steps(
    tmp_path: Path, first: str
) -> None:
    def run(*others: Any) -> tuple[list[int], list[int]]:
        keep = Keep()
        monitor = gradwatch.Monitor(tmp_path / "run", every=1, sinks=[keep])
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
        callbacks = [backup, monitor] if first == "backup" else [monitor, backup]
        try:
            fit(linear_model(keras.optimizers.Adam(0.1)), 3, *callbacks, *others, epochs=4)
        except KeyboardInterrupt:
            monitor.close()
        return keep.steps, keep.epochs

    steps, epochs = run(Interrupts(epoch=2))
    assert steps == [1, 2, 3, 4, 5, 6, 7, 8]
    # The third epoch is done again, from its beginning.
    keras.utils.clear_session()
    steps, epochs = run()
    assert steps == [7, 8, 9, 10, 11, 12]
    assert epochs == [3, 3, 3, 4, 4, 4]


@pytest.mark.any_backend
def test_early_stopping_within_the_run_ends_the_record_there(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1)
    # The loss never gets better by this much.
    stopping = keras.callbacks.EarlyStopping("loss", min_delta=1e9, patience=1)
    model = linear_model()
    fit(model, 2, monitor, stopping, epochs=9)
    assert keep.steps == [1, 2, 3, 4]
    fit(model, 2, monitor)
    assert keep.steps == [1, 2, 3, 4, 5, 6]


class StopsAfter(keras.callbacks.Callback):
    def __init__(self, batch: int) -> None:
        super().__init__()
        self._batch = batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.model.stop_training = batch == self._batch


@pytest.mark.any_backend
def test_stopping_within_an_epoch_keeps_the_count(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1)
    model = linear_model()
    fit(model, 6, StopsAfter(1), monitor, epochs=3)
    fit(model, 1, monitor)
    assert keep.steps == [1, 2, 3]


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_checkpoints_and_keras_tensorboard_do_as_they_do_alone(
    tmp_path: Path, order: tuple[int, int, int]
) -> None:
    pytest.importorskip("tensorflow", reason="Keras's TensorBoard needs it")

    def train(name: str, *more: Any) -> Any:
        keras.utils.clear_session()
        keras.utils.set_random_seed(3)
        model = linear_model(keras.optimizers.SGD(0.1, momentum=0.9))
        checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / f"{name}.keras")
        board = keras.callbacks.TensorBoard(tmp_path / name, histogram_freq=1)
        callbacks = [checkpoint, board, *more]
        ordered = [callbacks[i] for i in order if i < len(callbacks)]
        fit(model, 3, *ordered, epochs=2, validation_data=batches(1))
        return model

    keep = Keep()
    monitor = gradwatch.Monitor(tmp_path / "ours", every=1, sinks=[keep, gradwatch.TensorBoard()])
    with_monitor, alone = train("with", monitor), train("alone")

    assert keep.steps == [1, 2, 3, 4, 5, 6]
    for ours, bare in zip(copied(with_monitor.variables), copied(alone.variables), strict=True):
        np.testing.assert_allclose(ours, bare, rtol=1e-6)
    saved = keras.models.load_model(tmp_path / "with.keras")
    for loaded, last in zip(copied(saved.weights), copied(with_monitor.weights), strict=True):
        np.testing.assert_array_equal(loaded, last)
    kept = sorted(p.relative_to(tmp_path / "with").parent for p in files(tmp_path / "with"))
    assert kept == sorted(
        p.relative_to(tmp_path / "alone").parent for p in files(tmp_path / "alone")
    )
    assert len(list((tmp_path / "ours").glob("events.out.tfevents.*"))) == 1


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*tfevents*") if path.is_file()]
