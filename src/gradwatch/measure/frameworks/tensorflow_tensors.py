"""TensorFlow's tensors and variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from gradwatch.measure import tensorflow as measure
from gradwatch.measure import tensorflow_eager
from gradwatch.measure.frameworks import tensorflow_graph

count_cells = measure.count_cells


def summarize(tensors: Sequence[Any]) -> Any:
    if tf.executing_eagerly():
        return tensorflow_eager.measure(tensors, ())[0]
    return measure.summarize(tensors)


def summarize_and_count(
    tensors: Sequence[Any], with_cells: Sequence[int], due: Any = True
) -> tuple[Any, Any]:
    if tf.executing_eagerly() and isinstance(due, bool):
        rows, cells = tensorflow_eager.measure(tensors, with_cells if due else ())
        return rows, cells if due else count_cells([tensors[i] for i in with_cells], False)
    return summarize(tensors), count_cells([tensors[i] for i in with_cells], due)


def constant(number: int) -> Any:
    return tf.constant(number, tf.int32)


def snapshot(value: Any) -> Any:
    return tf.identity(value)


def copy(tensor: Any) -> Any:
    tensor = tf.convert_to_tensor(tensor)
    return tf.identity(tf.cast(tensor, tf.float64 if tensor.dtype == tf.float64 else tf.float32))


def difference(after: Any, before: Any) -> Any:
    after = tf.convert_to_tensor(after)
    wide = tf.float64 if after.dtype == tf.float64 else tf.float32
    return tf.cast(after, wide) - tf.cast(before, wide)


def dead_units(outputs: Any, axis: int) -> Any:
    outputs = tf.convert_to_tensor(outputs)
    rank = outputs.shape.rank
    if rank is None or rank < 2:
        return None
    others = [a for a in range(rank) if a != axis % rank]
    return tf.cast(
        tf.reduce_all(tf.equal(outputs, tf.zeros((), outputs.dtype)), others), tf.float32
    )


def is_traced(tensor: Any) -> bool:
    # A variable is no sign of it: in a graph and outside it is the same object.
    return bool(tf.is_symbolic_tensor(tensor)) or not tf.executing_eagerly()


@contextmanager
def apart() -> Iterator[None]:
    with tensorflow_graph.marked():
        yield
    tensorflow_graph.use_copies(())


def fetch(measured: Mapping[str, Any], names: Sequence[str]) -> Callable[[], dict[str, Any]]:
    return lambda: {name: np.asarray(measured[name]) for name in names}
