"""Measuring adds no collective operation, whatever the number of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradwatch
from tests.distributed.tensorflow.collectives import collectives, collectives_of_fit
from tests.distributed.tensorflow.on_two_devices.conftest import Keep

Make = Callable[..., tuple[Any, Keep]]
X = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")


def net(layers: int) -> Any:
    return keras.Sequential([keras.Input((4,)), *(keras.layers.Dense(4) for _ in range(layers))])


def new_steps(known: dict[str, int]) -> list[int]:
    return [count for name, count in collectives_of_fit().items() if name not in known]


@pytest.mark.parametrize("layers", [1, 6])
def test_a_step_of_fit_has_as_many_measured_as_not_measured(
    layers: int, strategy: Any, make_monitor: Make
) -> None:
    with strategy.scope():
        model = net(layers)
        model.compile("sgd", "mse")
    monitor, keep = make_monitor(watch=[gradwatch.gradients(), gradwatch.outputs()], every=[2])
    known = collectives_of_fit()
    model.fit(X, X, batch_size=4, verbose=0, callbacks=[monitor])
    assert [reading.step for reading in keep.readings] == [2]
    counts = new_steps(known)
    # Keras's own, of the step that is not measured, and the measured one.
    assert len(counts) == 2
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("layers", [1, 6])
def test_a_step_of_a_loop_has_as_many_measured_as_not_measured(
    layers: int, strategy: Any, make_monitor: Make
) -> None:
    with strategy.scope():
        model = net(layers)
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
    monitor, _ = make_monitor(watch=[gradwatch.gradients(), gradwatch.weights()])

    def step(is_measured: bool) -> Any:
        def replica_step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(model(x) - x)) / 8
            grads = tape.gradient(loss, model.trainable_variables)
            with monitor.reduced_by(optimizer) as applied:
                optimizer.apply(grads, model.trainable_variables)
            if not is_measured:
                return {}
            return monitor.measure(gradients=applied, variables=model, loss=loss)

        return tf.function(lambda x: strategy.run(replica_step, args=(x,)))

    plain, measured = (
        collectives(step(is_measured).get_concrete_function(tf.constant(X)))
        for is_measured in (False, True)
    )
    assert plain == measured > 0
