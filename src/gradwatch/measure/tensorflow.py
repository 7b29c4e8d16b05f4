"""TensorFlow tensors and variables: eager, in a graph, or compiled by XLA."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gradwatch.core import Tensor
from gradwatch.measure import tensorflow_eager, tensorflow_graph
from gradwatch.measure.framework import Fetched, vector_axes
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


def measure_one(tensor: Tensor) -> Tensor:
    return measure([tensor])[0][0]


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


def bias_correction(decay: Any, count: Any) -> Any:
    with np.errstate(divide="ignore"):  # A decay of 0 keeps nothing, and there is no bias.
        logarithm = tf.math.log(decay) if tf.is_tensor(decay) else np.log(decay)
    return -tf.math.expm1(tf.cast(count, tf.float32) * tf.cast(logarithm, tf.float32))


def normalized(gradient: Tensor, second: Tensor, correction: Any, floor: Any) -> Tensor:
    root = _root(second)
    scaled = tf.cast(tf.convert_to_tensor(gradient), root.dtype) * tf.cast(
        correction**0.5, root.dtype
    )
    return scaled / tf.maximum(root, tf.cast(floor, root.dtype))


def below(second: Tensor, floor: Any) -> Tensor:
    root = _root(second)
    return tf.cast(root < tf.cast(floor, root.dtype), tf.float32)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    (a, largest_a), (b, largest_b) = _scaled(a), _scaled(b)
    norms = tf.sqrt(tf.reduce_sum(a * a) * tf.reduce_sum(b * b))
    is_zero = tf.logical_or(tf.equal(largest_a, 0), tf.equal(largest_b, 0))
    ratio = tf.reduce_sum(a * b) / tf.where(is_zero, tf.ones_like(norms), norms)
    return tf.where(is_zero, tf.zeros_like(ratio), ratio)


def _scaled(x: Tensor) -> tuple[Tensor, Tensor]:
    """With 1 as the largest magnitude, so that no square overflows or underflows."""
    x = tf.convert_to_tensor(x)
    x = tf.cast(x, _wide(x))
    largest = tf.reduce_max(tf.abs(x))
    return x / tf.where(tf.equal(largest, 0), tf.ones_like(largest), largest), largest


def _root(x: Tensor) -> Tensor:
    x = tf.convert_to_tensor(x)
    x = tf.cast(x, _wide(x))
    return tf.sqrt(tf.maximum(x, tf.zeros((), x.dtype)))


def dead_units(outputs: Tensor, axis: int) -> Tensor | None:
    outputs = tf.convert_to_tensor(outputs)
    rank = outputs.shape.rank
    if rank is None or rank < 2:
        return None
    others = [a for a in range(rank) if a != axis % rank]
    is_zero = tf.equal(outputs, tf.zeros((), outputs.dtype))
    return tf.cast(tf.reduce_all(is_zero, others), tf.float32)


def outside(x: Tensor, low: float, high: float) -> Tensor:
    x = tf.cast(x, tf.float32)
    return tf.cast((x <= low) | (x >= high), tf.float32)


def expert_load(scores: Tensor, choices: int) -> Tensor:
    experts = int(scores.shape[-1])
    chosen = tf.reshape(tf.math.top_k(scores, min(choices, experts)).indices, [-1])
    counts = tf.math.unsorted_segment_sum(tf.ones_like(chosen), chosen, experts)
    return tf.cast(counts, tf.float32)


def residual_ratio(branch: Tensor, stream: Tensor) -> Tensor:
    rank = branch.shape.rank
    axes = (-1,) if rank is None else vector_axes(rank)
    wide = _wide(branch)
    branch, stream = (
        tf.sqrt(tf.reduce_sum(tf.square(tf.cast(x, wide)), axes)) for x in (branch, stream)
    )
    return tf.where(branch == 0, tf.zeros((), wide), branch / stream)


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
