"""`fit` on two replicas of one process, against one device and the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradwatch
from gradwatch import Kind
from gradwatch.capture.keras import refusal
from gradwatch.capture.keras.step_inputs import OF_WHOLE_BATCH
from gradwatch.core import SiteFilter
from tests.distributed.tensorflow.models import BATCH, Task, making, tasks
from tests.distributed.tensorflow.on_two_devices.conftest import Keep
from tests.distributed.tensorflow.truth import assert_same_summaries, assert_summarises

Make = Callable[..., tuple[Any, Keep]]

EVERYTHING = [
    gradwatch.gradients(histogram=True),
    gradwatch.applied_gradients(),
    gradwatch.weights(),
    gradwatch.updates(),
    gradwatch.outputs(per_unit=True, histogram=True),
    gradwatch.output_gradients(),
]


def built(task: Task, strategy: Any, **options: Any) -> Any:
    """A model of the task, compiled under the strategy."""
    with making(task, strategy):
        model = task.make()
        optimizer = keras.optimizers.SGD(0.125, momentum=0.5)
        model.compile(optimizer, "mse", **options)
    return model


def fitted(model: Any, task: Task, *monitors: Any) -> Any:
    model.fit(task.x, task.y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=list(monitors))
    return model


def one_device() -> Any:
    return tf.distribute.OneDeviceStrategy("CPU:0")


_OF_REPLICAS = SiteFilter(lambda site: site.path in OF_WHOLE_BATCH)
"""Leaves out what needs all targets of a batch at once."""


@pytest.mark.usefixtures("no_complaint")
@pytest.mark.parametrize("name", ["plain", "batch_norm", "embedding", "mixed"])
def test_replicas_give_what_one_device_gives_for_the_whole_batch_and_train_as_without_us(
    name: str, strategy: Any, make_monitor: Make
) -> None:
    task = tasks()[name]
    (alone, expected), (together, received) = (make_monitor(watch=EVERYTHING) for _ in range(2))
    if name == "embedding":
        # Words have no gradient, so that what leads to them has none either.
        watch = [each for each in EVERYTHING if each.kind is not Kind.OUTPUT_GRADIENT]
        (alone, expected), (together, received) = (make_monitor(watch=watch) for _ in range(2))
    fitted(built(task, one_device()), task, alone)
    watched = fitted(built(task, strategy), task, together)
    assert len(received.readings) == len(task.x) // BATCH
    for here, there in zip(received.readings, expected.readings, strict=True):
        assert_same_summaries(here, _OF_REPLICAS(there))
        assert here.cells.keys() == there.cells.keys()
        assert all(here.cells[i].sum() == there.summary[i].count for i in here.cells)
    if name in ("plain", "mixed"):
        unwatched = fitted(built(task, strategy), task)
        for mine, plain in zip(watched.get_weights(), unwatched.get_weights(), strict=True):
            np.testing.assert_array_equal(mine, plain)


def line(clipnorm: float | None = None) -> tuple[Callable[..., Any], np.ndarray, np.ndarray]:
    """A linear model, whose gradients NumPy knows; with data."""
    random = np.random.default_rng(1)
    x = random.normal(size=(BATCH, 3)).astype("float32")
    y = random.normal(size=(BATCH, 1)).astype("float32")

    def make(strategy: Any, **options: Any) -> Any:
        keras.utils.clear_session()
        keras.utils.set_random_seed(2)
        with strategy.scope():
            layers = [keras.Input((3,)), keras.layers.Dense(1, name="line")]
            model = keras.Sequential(layers, name="net")
            model.compile(keras.optimizers.SGD(0.1, clipnorm=clipnorm), "mse", **options)
        return model

    return make, x, y


def slopes(model: Any, x: np.ndarray, y: np.ndarray, samples: int) -> dict[str, np.ndarray]:
    """The gradients of the sum of squared errors over the number of samples, in float64."""
    w, b = (each.astype(np.float64) for each in model.get_weights())
    error = x.astype(np.float64) @ w + b - y
    return {
        "net/line/kernel": 2 / samples * x.T.astype(np.float64) @ error,
        "net/line/bias": 2 / samples * error.sum(0),
    }


@pytest.mark.usefixtures("no_complaint")
@pytest.mark.parametrize("eager", [False, True])
def test_gradients_are_those_of_all_replicas_and_on_request_those_of_each(
    eager: bool, strategy: Any, make_monitor: Make
) -> None:
    make, x, y = line()
    model = make(strategy, run_eagerly=eager)
    half = BATCH // 2
    truth = slopes(model, x, y, BATCH)
    each = [slopes(model, x[p], y[p], BATCH) for p in (slice(0, half), slice(half, None))]
    monitor, keep = make_monitor(watch=gradwatch.gradients(per_replica=True))
    model.fit(x, y, batch_size=BATCH, verbose=0, callbacks=[monitor], shuffle=False)
    (reading,) = keep.readings
    assert_summarises(reading, Kind.GRADIENT, truth)
    for replica, own in enumerate(each):
        (reading,) = keep.of_replica(replica)
        assert reading.group == f"replica_{replica}"
        assert_summarises(reading, Kind.GRADIENT, own, f"replica_{replica}/")


def test_with_clipping_it_is_the_sum_of_what_each_replica_has_clipped(
    strategy: Any, make_monitor: Make
) -> None:
    make, x, y = line(clipnorm=0.1)
    model = make(strategy)
    half = BATCH // 2
    each = [slopes(model, x[p], y[p], BATCH) for p in (slice(0, half), slice(half, None))]
    clipped = [{p: g * 0.1 / max(0.1, np.linalg.norm(g)) for p, g in own.items()} for own in each]
    truth = {path: clipped[0][path] + clipped[1][path] for path in clipped[0]}
    monitor, keep = make_monitor(watch=gradwatch.gradients())
    model.fit(x, y, batch_size=BATCH, verbose=0, callbacks=[monitor], shuffle=False)
    assert_summarises(keep.readings[0], Kind.GRADIENT, truth)
    assert keep.run is not None
    said = keep.run.meaning[Kind.GRADIENT]
    assert "sum over 2 replicas" in said
    assert "clipped by itself before (clipnorm=0.1)" in said


def test_a_step_that_loss_scaling_skips_has_no_gradient(strategy: Any, make_monitor: Make) -> None:
    task = tasks()["mixed"]
    x = np.concatenate([task.x, np.full_like(task.x, 1e30), task.x])
    bad = Task(task.make, x, np.concatenate([task.y] * 3), task.policy)
    monitor, keep = make_monitor(watch=[gradwatch.gradients(), gradwatch.weights()], diagnose=False)
    fitted(built(bad, strategy), bad, monitor)
    both = {Kind.GRADIENT, Kind.WEIGHT}
    kinds = [both & {site.kind for site in reading.sites} for reading in keep.readings]
    assert kinds == [both, {Kind.WEIGHT}, both]


def test_the_step_around_the_network_is_that_of_the_whole_batch(
    strategy: Any, make_monitor: Make
) -> None:
    make, x, y = line()
    model = make(strategy)
    w, b = model.get_weights()
    monitor, keep = make_monitor()
    model.fit(x, y, batch_size=BATCH, verbose=0, callbacks=[monitor], shuffle=False)
    (reading,) = keep.readings
    loss = np.mean((x.astype(np.float64) @ w + b - y) ** 2)
    np.testing.assert_allclose(reading.losses()["loss"], loss, rtol=1e-5)
    assert reading.numbers(Kind.SCALAR)["batch_size"] == BATCH
    assert_summarises(reading, Kind.INPUT, {"input": x})
    assert_summarises(reading, Kind.TARGET, {"target": y})


def test_an_exception_in_the_step_of_one_replica_leaves_nothing_behind(
    strategy: Any, make_monitor: Make
) -> None:
    class Fails(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.line = keras.layers.Dense(1)
            self.calls = 0

        def call(self, x: Any) -> Any:
            return self.line(x)

        def train_step(self, data: Any) -> Any:
            self.calls += 1
            if self.calls == 2:  # The second replica of the first step.
                raise RuntimeError("out of luck")
            return super().train_step(data)

    task = tasks()["plain"]
    with strategy.scope():
        model = Fails()
        model.compile("sgd", "mse")
    monitor, keep = make_monitor(watch=EVERYTHING)
    with pytest.raises(RuntimeError, match="out of luck"):
        fitted(model, task, monitor)
    left = {*vars(model.optimizer), *vars(model.line), *vars(model.metrics[0])}
    assert not left & {"apply", "_all_reduce_sum_gradients", "call", "update_state"}
    fitted(model, task, monitor)
    assert [reading.step for reading in keep.readings] == [1, 2]


def test_what_is_not_measured_is_refused_by_name(strategy: Any) -> None:
    make, _, _ = line()
    assert refusal(make(strategy)) is None
    assert "jit_compile=False" in str(refusal(make(strategy, jit_compile=True)))
    central = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"])
    assert "CentralStorageStrategy" in str(refusal(make(central)))
