"""Differentiates with TensorFlow."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import stateful_random_ops

from gradwatch.capture.keras.differentiate.differentiator import Compute


class TensorFlowDifferentiator:
    """A tape, in a function that is traced once and thrown away.

    Random operations in a function have their own state: the program's stays as it is.
    """

    def gradients(self, compute: Compute, values: list[Any], x: Any) -> tuple[Any, list[Any]]:
        values = [tf.identity(value) for value in values]
        x = tf.nest.map_structure(tf.identity, x)
        inputs = [t for t in tf.nest.flatten(x) if t.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch([*values, *inputs])
            loss = compute(values, x)
        found = tape.gradient(loss, [*values, *inputs])[: len(values)]
        # That of an embedding is sparse; this makes it dense.
        return loss, [None if g is None else tf.convert_to_tensor(g) for g in found]

    def run(self, step: Callable[[], dict[str, Any]], compiled: bool) -> dict[str, Any]:
        result: dict[str, Any] = tf.function(step, autograph=False)() if compiled else step()
        return {
            name: tf.convert_to_tensor(value) if isinstance(value, tf.IndexedSlices) else value
            for name, value in result.items()
        }

    @contextmanager
    def guarded(self, model: Any) -> Iterator[None]:
        generator = stateful_random_ops.global_generator
        before = None if generator is None else tf.identity(generator.state)
        try:
            yield
        finally:
            if generator is not None:
                generator.state.assign(before)
