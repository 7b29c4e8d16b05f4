"""TensorFlow tensors and variables: eager, in a graph, or compiled by XLA."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gradwatch.core import Tensor
from gradwatch.measure import tensorflow_eager, tensorflow_graph
from gradwatch.measure.framework import Fetched
from gradwatch.measure.kernels.tensorflow_tensors import count_cells, summarize

NAME = "tensorflow"

aside = tensorflow_graph.marked
use_copies = tensorflow_graph.use_copies


def measure(
    tensors: Sequence[Tensor | None], with_cells: Sequence[int] = (), due: Any = True
) -> tuple[Tensor, Tensor]:
    counted = [tensors[i] for i in with_cells]
    if not tf.executing_eagerly():
        return summarize(tensors), count_cells(counted, due)
    if due is True:
        return tensorflow_eager.measure(tensors, with_cells)
    return tensorflow_eager.measure(tensors, ())[0], count_cells(counted, due)


def constant(number: int) -> Tensor:
    return tf.constant(number, tf.int32)


def snapshot(value: Tensor) -> Tensor:
    return tf.identity(value)


def copy(tensor: Tensor) -> Tensor:
    tensor = tf.convert_to_tensor(tensor)
    return tf.identity(tf.cast(tensor, _wide(tensor)))


def difference(after: Tensor, before: Tensor) -> Tensor:
    after = tf.convert_to_tensor(after)
    return tf.cast(after, _wide(after)) - tf.cast(before, _wide(after))


def dead_units(outputs: Tensor, axis: int) -> Tensor | None:
    outputs = tf.convert_to_tensor(outputs)
    rank = outputs.shape.rank
    if rank is None or rank < 2:
        return None
    others = [a for a in range(rank) if a != axis % rank]
    is_zero = tf.equal(outputs, tf.zeros((), outputs.dtype))
    return tf.cast(tf.reduce_all(is_zero, others), tf.float32)


def is_traced(tensor: Tensor) -> bool:
    # A variable does not show it: in a graph and outside it is the same object.
    return bool(tf.is_symbolic_tensor(tensor)) or not tf.executing_eagerly()


def fetch_number(number: Tensor) -> Callable[[], float]:
    # Tensors do not change; variables do.
    value = tf.identity(number) if isinstance(number, tf.Variable) else number
    return lambda: float(np.asarray(value).reshape(()))


def fetch(measured: Mapping[str, Tensor], names: Sequence[str]) -> Fetched:
    return lambda: {name: np.asarray(measured[name]) for name in names}


def _wide(tensor: Tensor) -> Any:
    return tf.float64 if tensor.dtype == tf.float64 else tf.float32
