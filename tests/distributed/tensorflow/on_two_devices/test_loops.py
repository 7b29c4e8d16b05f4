"""Loops of one's own with `strategy.run` on two replicas of one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradwatch
from gradwatch import Kind
from tests.distributed.tensorflow import loops
from tests.distributed.tensorflow.models import tasks
from tests.distributed.tensorflow.on_two_devices.conftest import Keep
from tests.distributed.tensorflow.truth import assert_summarises

Make = Callable[..., tuple[Any, Keep]]
WATCH = [gradwatch.gradients(per_replica=True), gradwatch.weights()]


@pytest.mark.usefixtures("no_complaint")
@pytest.mark.parametrize("name", ["plain", "batch_norm", "embedding", "mixed"])
def test_a_compiled_step_gives_what_one_device_gives_for_the_whole_batch(
    name: str, strategy: Any, make_monitor: Make
) -> None:
    task = tasks()[name]
    expected = loops.truth(task)
    model, optimizer = loops.made(task, strategy)
    monitor, keep = make_monitor(watch=WATCH)
    measured, _ = loops.steps(model, optimizer, monitor, strategy)
    for step, batch in enumerate(loops.batches(task, strategy), start=1):
        readings, own = measured(batch)
        monitor.record(readings, step=step)
        monitor.record(own, step=step, group="own")
    monitor.close()
    whole = [r for r in keep.every if r.group == ""]
    assert len(whole) == len(expected)
    for step, (reading, truth) in enumerate(zip(whole, expected, strict=True)):
        assert_summarises(reading, Kind.GRADIENT, truth["gradients"])
        assert_summarises(reading, Kind.WEIGHT, truth["weights"])
        np.testing.assert_allclose(reading.losses()["loss"], truth["loss"], rtol=1e-5)
        if name != "batch_norm":  # Synchronised, a half has no statistics of its own.
            for replica, part in enumerate(truth["parts"]):
                own_reading = keep.of_replica(replica)[step]
                prefix = f"own/replica_{replica}/"
                assert_summarises(own_reading, Kind.GRADIENT, part, prefix)


def test_an_eager_step_is_recorded_once_by_tape_and_record(
    strategy: Any, make_monitor: Make, caplog: pytest.LogCaptureFixture
) -> None:
    task = tasks()["plain"]
    expected = loops.truth(task)
    model, optimizer = loops.made(task, strategy)
    monitor, keep = make_monitor(watch=[gradwatch.gradients(), gradwatch.weights()])

    def replica_step(x: Any, y: Any) -> None:
        with monitor.tape() as tape:
            loss = tf.reduce_sum(tf.square(model(x, training=True) - y)) / 8
        grads = tape.gradient(loss, model.trainable_variables)
        with monitor.reduced_by(optimizer) as applied:
            optimizer.apply(grads, model.trainable_variables)
        monitor.record(gradients=applied, variables=model, loss=loss, group="applied")
        summed = tf.distribute.get_replica_context().all_reduce("sum", list(grads))
        names = model.trainable_variables
        monitor.record(gradients=summed, variables=names, reduced=True, group="by_hand")

    for batch in loops.batches(task, strategy):
        strategy.run(replica_step, args=batch)
    monitor.close()
    for group in ("applied", "by_hand"):
        readings = [r for r in keep.every if r.group == group]
        assert [r.step for r in readings] == [1, 2]
        for reading, truth in zip(readings, expected, strict=True):
            assert_summarises(reading, Kind.GRADIENT, truth["gradients"], f"{group}/")
    for replica in range(2):
        readings = keep.of_replica(replica)
        assert [r.step for r in readings] == [1, 2]
        for reading, truth in zip(readings, expected, strict=True):
            part = truth["parts"][replica]
            assert_summarises(reading, Kind.GRADIENT, part, f"replica_{replica}/")
    assert any("that replica's own" in record.getMessage() for record in caplog.records)
    assert "_all_reduce_sum_gradients" not in vars(optimizer)


def test_reduced_by_works_the_same_with_one_replica(make_monitor: Make) -> None:
    task = tasks()["plain"]
    expected = loops.truth(task)[0]
    model, optimizer = loops.made(task, tf.distribute.get_strategy())
    monitor, keep = make_monitor(watch=gradwatch.gradients())
    _, grads = loops.gradients_of(model, task.x[:8], task.y[:8])
    with monitor.reduced_by(optimizer) as applied:
        optimizer.apply(grads, model.trainable_variables)
    monitor.record(gradients=applied, variables=model)
    monitor.close()
    assert_summarises(keep.every[0], Kind.GRADIENT, expected["gradients"])


def test_what_is_not_recorded_inside_of_replicas_is_refused_by_name(
    strategy: Any, make_monitor: Make
) -> None:
    model, optimizer = loops.made(tasks()["plain"], strategy)
    monitor, _ = make_monitor(watch=[gradwatch.gradients("*kernel"), gradwatch.outputs()])
    x = tf.ones((2, 4))

    def run(function: Callable[[], Any]) -> None:
        strategy.run(function)

    with pytest.raises(RuntimeError, match=r"outputs_of\(\) does not see the replicas"):
        run(lambda: monitor.outputs_of(model))
    with pytest.raises(TypeError, match="outputs= is not recorded from inside of replicas"):
        run(lambda: monitor.record(outputs={"hidden": x}))
    with pytest.raises(TypeError, match="does not see what a LossScaleOptimizer applies"):
        monitor.reduced_by(keras.optimizers.LossScaleOptimizer(optimizer))
    with monitor.reduced_by(optimizer) as applied:
        pass
    with pytest.raises(ValueError, match=r"reduced_by\(\) has seen nothing"):
        run(lambda: monitor.record(gradients=applied, variables=model))
    wrong, _ = make_monitor(watch=gradwatch.gradients("no_such_layer"))
    grads = [tf.ones(v.shape) for v in model.trainable_variables]
    with pytest.raises(ValueError, match="no_such_layer"):
        run(lambda: wrong.record(gradients=grads, variables=model.trainable_variables))
