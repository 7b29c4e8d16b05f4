"""`steps_per_execution` > 1: several batches in one call of the train function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch.core import schedule
from tests.keras.support_behaviour import EVERYTHING, batch, copied, fit, linear_model

BATCHES = 10
needs_several_steps = pytest.mark.skipif(
    keras.backend.backend() == "torch",
    reason="Keras on torch refuses steps_per_execution > 1, see the first test",
)
RAN_OUT = "ignore:Your input ran out of data:UserWarning"


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="only torch refuses it")
def test_torch_refuses_it_with_and_without_the_monitor(make_monitor: Any) -> None:
    for callbacks in ([], [make_monitor()[0]]):
        model = linear_model(steps_per_execution=4)
        with pytest.raises(ValueError, match="must be 1 with the PyTorch backend"):
            fit(model, 4, *callbacks)


def generated(count: int) -> Iterator[Any]:
    for step in range(1, count + 1):
        yield batch(step)


def train(steps_per_execution: int, monitor: Any, known: bool, epochs: int = 1) -> Any:
    keras.utils.set_random_seed(5)
    model = linear_model(keras.optimizers.Adam(0.1), steps_per_execution=steps_per_execution)
    callbacks = [monitor] if monitor else []
    if known:
        fit(model, BATCHES, *callbacks, epochs=epochs)
    else:
        model.fit(generated(BATCHES), verbose=0, shuffle=False, callbacks=callbacks)
    return model


def packed(reading: Any) -> np.ndarray:
    return reading.summary.pack()


@needs_several_steps
@pytest.mark.filterwarnings(RAN_OUT)
@pytest.mark.parametrize(
    ("every", "expected", "known"),
    [
        (1, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], True),
        pytest.param(1, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], False, marks=pytest.mark.slow),
        pytest.param(3, [3, 6, 9], True, marks=pytest.mark.slow),
        (3, [3, 6, 9], False),
        # Nothing in the second execution; both steps of the third, which is cut short.
        ([1, 9, 10], [1, 9, 10], True),
        pytest.param([1, 9, 10], [1, 9, 10], False, marks=pytest.mark.slow),
    ],
)
def test_the_steps_that_are_due_are_measured_as_one_by_one(
    make_monitor: Any, every: Any, expected: list[int], known: bool
) -> None:
    monitor, keep = make_monitor(every=every, watch=EVERYTHING)
    single, keep_single = make_monitor(every=every, watch=EVERYTHING)
    together = train(4, monitor, known)
    one_by_one = train(1, single, known)
    bare = train(4, None, known)

    assert keep.steps == keep_single.steps == expected
    for ours, theirs in zip(keep.readings, keep_single.readings, strict=True):
        assert ours.sites == theirs.sites
        np.testing.assert_allclose(packed(ours), packed(theirs), rtol=1e-5, atol=1e-6)
    for model in (together, one_by_one):
        for values, truth in zip(copied(model.variables), copied(bare.variables), strict=True):
            np.testing.assert_allclose(values, truth, rtol=1e-6)


@needs_several_steps
def test_the_last_step_of_an_epoch_is_measured_when_it_is_alone_in_its_execution(
    make_monitor: Any,
) -> None:
    """9 batches are 4 + 4 + 1; what is compiled for the 1 must not run 4 later on."""
    every = schedule.each_epoch() | schedule.at(11)
    monitor, keep = make_monitor(every=every, watch=gradwatch.weights())
    model = linear_model(steps_per_execution=4)
    fit(model, 9, monitor, epochs=2)
    assert keep.steps == [9, 11, 18]
    assert int(model.optimizer.iterations.value) == 18


@needs_several_steps
def test_all_steps_are_measured_in_eager_mode(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1)
    model = linear_model(steps_per_execution=4, run_eagerly=True)
    fit(model, 6, monitor)
    assert keep.steps == [1, 2, 3, 4, 5, 6]


@needs_several_steps
@pytest.mark.filterwarnings(RAN_OUT)
def test_the_step_numbers_go_on_after_data_of_unknown_length(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1)
    model = linear_model(steps_per_execution=4)
    for _ in range(2):
        model.fit(generated(6), verbose=0, shuffle=False, callbacks=[monitor])
    assert keep.steps == list(range(1, 13))
    assert int(model.optimizer.iterations.value) == 12


@needs_several_steps
def test_the_logs_are_those_of_a_bare_fit(make_monitor: Any) -> None:
    monitor, keep = make_monitor(every=1)
    keras.utils.set_random_seed(5)
    history = fit(linear_model(steps_per_execution=4), BATCHES, monitor, epochs=2).history
    keras.utils.set_random_seed(5)
    bare = fit(linear_model(steps_per_execution=4), BATCHES, epochs=2).history
    assert keep.steps == list(range(1, 21))
    assert history.keys() == bare.keys()
    np.testing.assert_allclose(history["loss"], bare["loss"], rtol=1e-6)


@needs_several_steps
@pytest.mark.parametrize("every", [1, 4], ids=["every-step", "some"])
def test_an_epoch_that_is_no_multiple_of_the_execution_runs_as_far_as_in_a_bare_fit(
    make_monitor: Any, every: int
) -> None:
    # Keras counts executions, so that 5 steps an epoch are 6 if the data goes on.
    monitor, keep = make_monitor(every=every, watch=gradwatch.weights())
    models = []
    for callbacks in ([monitor], []):
        keras.utils.set_random_seed(5)
        models.append(linear_model(steps_per_execution=3))
        data = generated(100)
        settings = {"steps_per_epoch": 5, "epochs": 2, "verbose": 0, "shuffle": False}
        models[-1].fit(data, callbacks=callbacks, **settings)
    assert [int(model.optimizer.iterations.value) for model in models] == [12, 12]
    assert keep.steps == list(range(every, 13, every))
    for ours, truth in zip(*(copied(model.variables) for model in models), strict=True):
        np.testing.assert_allclose(ours, truth, rtol=1e-6)
