"""When `fit` is measured: schedules, epochs, and fits that continue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import Kind
from gradwatch.capture.keras import fit_capture, slow_start
from gradwatch.core import schedule
from tests.keras.support_behaviour import (
    BATCH,
    KERNEL,
    StatesOfSteps,
    batch,
    batches,
    fit,
    linear_model,
)
from tests.keras.ways import mostly_on_torch

RAN_OUT = "ignore:Your input ran out of data:UserWarning"


def with_histograms(keep: Any) -> list[int]:
    return [reading.step for reading in keep.readings if reading.cells]


def test_by_default_the_first_twenty_steps_and_each_epochs_last_with_histograms(
    make_monitor: Any,
) -> None:
    monitor, keep = make_monitor(diagnose=False)
    fit(linear_model(), 12, monitor, epochs=2)
    assert keep.steps == [*range(1, 21), 22, 24]
    assert keep.epochs == [1] * 12 + [2] * 10
    assert with_histograms(keep) == [12, 24]
    for reading in keep.readings:
        assert {site.kind for site in reading.sites} == {Kind.GRADIENT, Kind.WEIGHT}
    for position, cells in keep.readings[11].cells.items():
        assert cells.sum() == keep.readings[11].summary.count[position]


@pytest.mark.parametrize(
    ("every", "expected"),
    mostly_on_torch(
        [
            (1, [1, 2, 3, 4, 5, 6, 7, 8]),
            ("epoch", [4, 8]),
            ([1, 3, 7], [1, 3, 7]),
            (schedule.first(2) | schedule.every(5), [1, 2, 5]),
            (schedule.log_spaced(3), [1, 2, 5]),
            (schedule.every(2) & ~schedule.each_epoch(), [2, 6]),
            (lambda step: step in (2, 6), [2, 6]),
            (schedule.each_epoch(2), [8]),
        ],
        [1, "epoch"],
    ),
    ids=["all", "epoch", "list", "combined", "log", "but", "function", "every-2nd-epoch"],
)
def test_the_steps_of_a_schedule_are_measured(
    make_monitor: Any, every: Any, expected: list[int]
) -> None:
    # Only weights: with histograms once an epoch there would be more steps.
    monitor, keep = make_monitor(every=every, watch=gradwatch.weights())
    fit(linear_model(), 4, monitor, epochs=2)
    assert keep.steps == expected
    assert keep.epochs == [(step + 3) // 4 for step in expected]


def test_each_watch_has_its_own_schedule_and_what_is_measured_is_that_steps(
    make_monitor: Any,
) -> None:
    watch = [
        gradwatch.gradients("kernel", every=2, histogram=3),
        gradwatch.weights("bias", every=[1, 4]),
    ]
    monitor, keep = make_monitor(watch=watch)
    states = StatesOfSteps()
    fit(linear_model(), 6, states, monitor)
    kinds = {r.step: [str(site) for site in r.sites] for r in keep.readings}
    gradient, weight = f"gradient {KERNEL}", "weight net/dense/bias"
    both = [gradient, weight]
    assert kinds == {1: [weight], 2: [gradient], 3: [gradient], 4: both, 6: [gradient]}
    assert with_histograms(keep) == [3, 6]
    biases = keep.series(Kind.WEIGHT, "net/dense/bias", "sum")
    np.testing.assert_allclose(biases, [states.after[i][1].sum() for i in (0, 3)], rtol=1e-6)


def generated(count: int) -> Iterator[Any]:
    for step in range(1, count + 1):
        yield batch(step)


@pytest.mark.filterwarnings(RAN_OUT)
@pytest.mark.any_backend
def test_the_first_batch_stands_for_an_epoch_of_unknown_length(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every="epoch")
    model = linear_model()
    for _ in range(3):
        model.fit(generated(3), shuffle=False, verbose=0, callbacks=[monitor])
    assert keep.steps == [1, 4, 7]
    assert with_histograms(keep) == [1, 4, 7]


@pytest.mark.filterwarnings(RAN_OUT)
def test_the_steps_of_epochs_of_unknown_length_are_counted_right(
    make_monitor: Any,
) -> None:
    """Keras learns of such an epoch's end only by beginning a batch that is not there."""
    tf = pytest.importorskip("tensorflow")
    monitor, keep = make_monitor(every=1, watch=gradwatch.weights())
    model = linear_model()
    # Keras takes TensorFlow's datasets on every backend; this one can be gone through again.
    specs = [tf.TensorSpec(each.shape, "float32") for each in batch(1)]
    data = tf.data.Dataset.from_generator(lambda: generated(3), output_signature=tuple(specs))
    states = StatesOfSteps()
    model.fit(data, epochs=3, shuffle=False, verbose=0, callbacks=[monitor, states])
    # Not so the optimizer's counter: on TensorFlow, it counts the batch that is not there.
    assert len(states.after) == 9
    assert keep.steps == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert keep.epochs == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    sums = keep.series(Kind.WEIGHT, KERNEL, "sum")
    np.testing.assert_allclose(sums, [after[0].sum() for after in states.after], rtol=1e-5)


@pytest.mark.any_backend
def test_steps_per_epoch_sets_the_epochs_last_step(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every="epoch")
    model = linear_model()
    settings = {"steps_per_epoch": 2, "epochs": 3, "shuffle": False, "verbose": 0}
    model.fit(generated(6), callbacks=[monitor], **settings)
    assert keep.steps == [2, 4, 6]


@pytest.mark.any_backend
def test_initial_epoch_is_where_the_epochs_go_on(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every="epoch")
    fit(linear_model(), 2, monitor, initial_epoch=3, epochs=5)
    assert keep.steps == [2, 4]
    assert keep.epochs == [4, 5]


def test_fitting_again_continues_the_steps(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=2, watch=gradwatch.weights())
    model = linear_model()
    fit(model, 3, monitor)
    fit(model, 3, monitor)
    assert keep.steps == [2, 4, 6]
    assert [run.first_step for run in keep.runs] == [1, 4]


def test_a_new_monitor_takes_the_step_from_the_optimizer(make_monitor: Any) -> None:
    model = linear_model()
    fit(model, 5)
    monitor, keep = make_monitor(every=1)
    fit(model, 2, monitor)
    assert keep.steps == [6, 7]
    assert keep.runs[0].first_step == 6


def test_validation_does_not_count_and_is_not_measured(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1)
    states = StatesOfSteps()
    x, y = batches(3)
    history = fit(linear_model(), 2, states, monitor, epochs=2, validation_data=(x + 9.0, y))
    assert "val_loss" in history.history
    assert keep.steps == [1, 2, 3, 4]
    sums = keep.series(Kind.WEIGHT, KERNEL, "sum")
    np.testing.assert_allclose(sums, [after[0].sum() for after in states.after], rtol=1e-5)


def test_the_smaller_last_batch_of_an_epoch_is_a_step_like_any_other(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1)
    x, y = batches(2)
    model = linear_model()
    model.fit(x[: BATCH + 1], y[: BATCH + 1], batch_size=BATCH, verbose=0, callbacks=[monitor])
    assert keep.steps == [1, 2]


class Ends(keras.callbacks.Callback):
    """Counts the steps that have ended."""

    count = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.count += 1


@pytest.mark.filterwarnings(RAN_OUT)
@pytest.mark.any_backend
def test_epochs_of_unknown_and_different_lengths_are_measured_to_their_last_steps(
    make_monitor: Any,
) -> None:
    data = pytest.importorskip("torch").utils.data

    class Growing(data.IterableDataset):
        """One batch more in each epoch than in the one before."""

        batches = 2

        def __iter__(self) -> Iterator[Any]:
            self.batches += 1
            for _ in range(self.batches * BATCH):
                yield np.ones(3, "float32"), np.ones(2, "float32")

    # Keras takes the length of the first epoch for that of the next ones, and finds out.
    monitor, keep = make_monitor(every=1)
    ends, batched = Ends(), data.DataLoader(Growing(), batch_size=BATCH)
    linear_model().fit(batched, epochs=4, callbacks=[monitor, ends], verbose=0, shuffle=False)
    assert ends.count > 12
    assert keep.steps == list(range(1, ends.count + 1))


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="nothing is compiled")
@pytest.mark.parametrize("every", [1, pytest.param("epoch", marks=pytest.mark.slow)])
def test_compiling_is_announced_while_it_lasts_and_counted(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, every: Any
) -> None:
    monkeypatch.setattr(slow_start, "PATIENCE", 0.0)
    monitor = gradwatch.Monitor(tmp_path, every=every)
    fit(linear_model(jit_compile=True), 4, monitor, epochs=2, verbose=2)
    text = capsys.readouterr().out
    assert text.count("gradwatch · compiling the measured step ...") == 1
    assert text.index("compiling the measured step") < text.index("gradwatch · epoch 1")
    assert monitor.cost.compile_seconds > 0


def test_what_only_the_diagnosis_wants_is_measured_at_some_steps_and_the_rest_at_each(
    make_monitor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit_capture, "LESSER_FROM", 20)
    monitor, keep = make_monitor(every=1)
    model, kinds = linear_model(), {}

    def is_thinned() -> bool:
        kinds.update({r.step: {s.kind for s in r.sites} for r in keep.readings if len(r.sites) > 2})
        return any(Kind.OUTPUT not in found for found in kinds.values())

    for _ in range(50):  # On JAX and TensorFlow, the lesser step is compiled meanwhile.
        fit(model, 40, monitor)
        if is_thinned():
            break
    assert is_thinned()
    assert sorted(kinds) == list(range(1, len(kinds) + 1))
    assert all({Kind.GRADIENT, Kind.WEIGHT} <= found for found in kinds.values())
    assert all({Kind.OUTPUT, Kind.UPDATE, Kind.INPUT} <= kinds[step] for step in range(1, 21))
    for found in kinds.values():
        assert len(found & {Kind.OUTPUT, Kind.UPDATE, Kind.INPUT}) in (0, 3)


def test_what_the_user_asks_for_is_measured_at_each_step(make_monitor: Any) -> None:
    watch = [gradwatch.gradients(), gradwatch.updates(), gradwatch.outputs()]
    monitor, keep = make_monitor(every=1, watch=watch)
    fit(linear_model(), 40, monitor)
    steps = [r.step for r in keep.readings if Kind.OUTPUT in {s.kind for s in r.sites}]
    assert steps == list(range(1, 41))
