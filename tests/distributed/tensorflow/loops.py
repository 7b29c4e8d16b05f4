"""A training loop of one's own with `strategy.run`, and what its step should yield."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.distributed.tensorflow.models import BATCH, Task, making


def made(task: Task, strategy: Any) -> tuple[Any, Any]:
    """The model and its optimizer."""
    with making(task, strategy):
        model = task.make()
        optimizer = keras.optimizers.SGD(0.125)
        optimizer.build(model.trainable_variables)
    return model, optimizer


def batches(task: Task, strategy: Any) -> Any:
    """Each replica gets its share of each batch."""
    data = tf.data.Dataset.from_tensor_slices((task.x, task.y)).batch(BATCH)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return strategy.experimental_distribute_dataset(data.with_options(options))


def gradients_of(model: Any, x: Any, y: Any) -> tuple[Any, list[Any]]:
    """A replica's share of the loss of the whole batch, and its gradients."""
    with tf.GradientTape() as tape:
        error = tf.cast(model(x, training=True), tf.float32) - y
        loss = tf.reduce_sum(tf.square(error)) / BATCH
    return loss, tape.gradient(loss, model.trainable_variables)


def steps(model: Any, optimizer: Any, monitor: Any, strategy: Any) -> tuple[Any, Any]:
    """Two compiled steps: one that is measured, and one that is not."""

    def measured(x: Any, y: Any) -> Any:
        loss, grads = gradients_of(model, x, y)
        with monitor.reduced_by(optimizer) as applied:
            optimizer.apply(grads, model.trainable_variables)
        own = monitor.measure(gradients=grads, variables=model.trainable_variables, group="own")
        return monitor.measure(gradients=applied, variables=model, loss=loss), own

    def plain(x: Any, y: Any) -> Any:
        _, grads = gradients_of(model, x, y)
        optimizer.apply(grads, model.trainable_variables)

    return (
        tf.function(lambda batch: strategy.run(measured, args=batch)),
        tf.function(lambda batch: strategy.run(plain, args=batch)),
    )


def truth(task: Task, epochs: int = 1) -> list[dict[str, Any]]:
    """For each step, on one device: the loss, gradients and weights by path.

    `parts` are the gradients of each half of the batch, of its share of the loss.
    """
    model, optimizer = made(task, tf.distribute.get_strategy())
    found = []
    for start in [*range(0, len(task.x), BATCH)] * epochs:
        x, y = task.x[start : start + BATCH], task.y[start : start + BATCH]
        half = BATCH // 2
        before = [v.numpy() for v in model.variables]
        parts = []
        for part in (slice(0, half), slice(half, None)):
            parts.append(_by_path(model, gradients_of(model, x[part], y[part])[1]))
            for variable, value in zip(model.variables, before, strict=True):
                variable.assign(value)
        loss, grads = gradients_of(model, x, y)
        optimizer.apply(grads, model.trainable_variables)
        found.append(
            {
                "loss": float(loss),
                "gradients": _by_path(model, grads),
                "parts": parts,
                "weights": {v.path: v.numpy() for v in model.weights if "seed" not in v.path},
            }
        )
    return found


def _by_path(model: Any, grads: list[Any]) -> dict[str, np.ndarray]:
    return {
        variable.path: tf.convert_to_tensor(gradient).numpy()
        for variable, gradient in zip(model.trainable_variables, grads, strict=True)
    }
