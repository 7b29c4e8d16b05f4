"""A `fit` that fails leaves the model as it was, and what was measured is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import pytest

import gradwatch
from tests.keras.support_behaviour import batch, csv_steps, fit, linear_model
from tests.keras.ways import KEEPS_VARIABLES, mostly_on_torch

BATCHES = 4
FAILING = 2  # the index of the batch at which things go wrong: the third


class Fails(keras.callbacks.Callback):
    """Raises at one point of the course of `fit`, once."""

    def __init__(self, where: str, error: BaseException) -> None:
        super().__init__()
        self._where, self._error = where, error

    def _at(self, where: str) -> None:
        if where == self._where:
            self._where = "nowhere"
            raise self._error

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._at(f"batch begin {batch}")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._at(f"batch end {batch}")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._at("epoch end")


class FailsInTrainStep(keras.Sequential):
    """Raises in the third call of its own train step."""

    calls = 0

    def train_step(self, *args: Any) -> Any:
        self.calls += 1
        if self.calls == FAILING + 1:
            raise RuntimeError("from the train step")
        return super().train_step(*args)


class Attributes:
    """How the model and its optimizer are, to be compared with later."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._names = vars(model).keys() | set()
        self._optimizer_names = vars(model.optimizer).keys() | set()
        self._train_function = vars(model)["train_function"]

    def assert_restored(self) -> None:
        model = self._model
        assert vars(model)["train_function"] is self._train_function
        assert vars(model).keys() == self._names
        assert vars(model.optimizer).keys() == self._optimizer_names
        assert not {"train_step", "apply", "stateless_apply"} & (
            vars(model).keys() | vars(model.optimizer).keys()
        )
        assert model.steps_per_execution == 1


def trained_once(**compiling: Any) -> Any:
    """A model that has done a step: its attributes are those between two fits."""
    model = linear_model(**compiling)
    fit(model, 1)
    return model


def monitored(directory: Path) -> Any:
    return gradwatch.Monitor(directory, every=1, sinks=[gradwatch.CSV()])


PLACES = {
    # where: the steps that were run before it, after the one of `trained_once`
    f"batch begin {FAILING}": [2, 3],
    f"batch end {FAILING}": [2, 3, 4],
    "epoch end": [2, 3, 4, 5],
}


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()], ids=lambda e: type(e))
@pytest.mark.parametrize("where", mostly_on_torch(PLACES, ["batch end 2"]))
def test_a_failing_callback_leaves_the_model_as_it_was_and_the_table_whole(
    tmp_path: Path, where: str, error: BaseException
) -> None:
    model = trained_once()
    before = Attributes(model)
    with pytest.raises(type(error)), monitored(tmp_path / "run") as monitor:
        fit(model, BATCHES, Fails(where, error), monitor)
    before.assert_restored()
    assert csv_steps(tmp_path / "run") == PLACES[where]


def test_a_failing_train_step_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    model = linear_model(cls=FailsInTrainStep, run_eagerly=True)
    fit(model, 1)
    model.calls = 0
    before = Attributes(model)
    with pytest.raises(RuntimeError, match="from the train step"), monitored(tmp_path) as monitor:
        fit(model, BATCHES, monitor)
    before.assert_restored()
    assert csv_steps(tmp_path) == [2, 3]


def failing_data() -> Iterator[Any]:
    for step in range(1, FAILING + 1):
        yield batch(step)
    raise RuntimeError("from the data")


@KEEPS_VARIABLES
def test_failing_data_leave_the_model_as_it_was(tmp_path: Path) -> None:
    model = trained_once()
    before = Attributes(model)
    # TensorFlow wraps what a generator raises into an error of its own.
    with pytest.raises(Exception, match="from the data"), monitored(tmp_path) as monitor:
        model.fit(failing_data(), shuffle=False, verbose=0, callbacks=[monitor])
    before.assert_restored()
    assert csv_steps(tmp_path) == [2, 3]


@KEEPS_VARIABLES
def test_the_next_fit_continues_the_steps_that_were_really_run(tmp_path: Path) -> None:
    model = trained_once()
    monitor = monitored(tmp_path)
    with pytest.raises(RuntimeError):
        fit(model, BATCHES, Fails(f"batch begin {FAILING}", RuntimeError()), monitor)
    fit(model, 2, monitor)
    assert csv_steps(tmp_path) == [2, 3, 4, 5]
    fit(model, 3)
    fit(model, 1, monitor)
    assert csv_steps(tmp_path) == [2, 3, 4, 5, 9]


@pytest.mark.any_backend
def test_an_unmonitored_fit_between_a_failed_and_a_monitored_one_counts(tmp_path: Path) -> None:
    model = trained_once()
    monitor = monitored(tmp_path)
    with pytest.raises(RuntimeError):
        fit(model, BATCHES, Fails(f"batch end {FAILING}", RuntimeError()), monitor)
    fit(model, 5)
    fit(model, 1, monitor)
    assert csv_steps(tmp_path) == [2, 3, 4, 10]


@KEEPS_VARIABLES
@pytest.mark.parametrize("closes", [True, False], ids=["closed", "not-closed"])
def test_an_order_that_another_callback_thwarted_is_not_measured_in_a_later_fit(
    tmp_path: Path, closes: bool
) -> None:
    model = trained_once()
    before = Attributes(model)
    monitor = monitored(tmp_path)
    with pytest.raises(RuntimeError):
        # After the monitor, which has already given its order for the step.
        fit(model, BATCHES, monitor, Fails(f"batch begin {FAILING}", RuntimeError()))
    if closes:
        monitor.close()
    fit(model, 3)
    before.assert_restored()
    monitor.close()
    assert csv_steps(tmp_path) == [2, 3]
    fit(model, 1, monitor)
    before.assert_restored()
    assert csv_steps(tmp_path) == [2, 3, 7]


def test_a_model_that_another_callback_interrupted_is_restored_when_the_monitor_closes(
    tmp_path: Path,
) -> None:
    model = trained_once()
    before = Attributes(model)
    with pytest.raises(RuntimeError), monitored(tmp_path) as monitor:
        fit(model, BATCHES, monitor, Fails(f"batch begin {FAILING}", RuntimeError()))
    before.assert_restored()


@pytest.mark.any_backend
def test_methods_of_the_users_own_on_the_optimizer_survive(tmp_path: Path) -> None:
    model = trained_once(run_eagerly=True)
    name = "stateless_apply" if keras.backend.backend() == "jax" else "apply"
    original = getattr(model.optimizer, name)
    calls = []

    def counted(*args: Any) -> Any:
        calls.append(1)
        return original(*args)

    vars(model.optimizer)[name] = counted
    fit(model, 3, monitored(tmp_path))
    assert vars(model.optimizer)[name] is counted
    assert len(calls) == 3
    assert csv_steps(tmp_path) == [2, 3, 4]
