"""Summaries and histogram cells of TensorFlow tensors: dense or sparse, of known shape or not."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gradwatch.core import CELLS, FIELDS, IDENTITY, ZERO, Tensor
from gradwatch.measure.kernels.float_bits import FLOAT32_BITS, FLOAT64_BITS, FloatBits
from gradwatch.measure.kernels.tensorflow_cells import cells_by_rows, cells_of
from gradwatch.measure.kernels.tensorflow_rows import summarize_rows


def summarize(tensors: Sequence[Tensor | None]) -> Tensor:
    """Packed summaries, one row a tensor.

    None counts as a tensor without elements. `tf.IndexedSlices`, the gradient of
    an embedding, is measured as the dense tensor it stands for, without making it.
    """
    if not tensors:
        return tf.zeros((0, len(FIELDS)), tf.float64)
    held = [_held(x) for x in tensors]
    batched = [i for i, x in enumerate(held) if _is_batched(x)]
    tables = [summarize_rows([held[i] for i in batched])] if batched else []
    if len(batched) == len(held):
        return tables[0]
    others = [i for i in range(len(held)) if i not in set(batched)]
    tables.append(tf.stack([_summary(held[i]) for i in others]))
    return tf.gather(tf.concat(tables, 0), np.argsort(batched + others))


def count_cells(tensors: Sequence[Tensor | None], due: Any = True) -> Tensor:
    """Histogram cells, one row a tensor; all zero where the flag `due` is false."""

    def count() -> Tensor:
        return _count_all(tensors)

    def skip() -> Tensor:
        return tf.zeros((len(tensors), CELLS), tf.int64)

    if not tensors or due is False:
        return skip()
    return count() if due is True else tf.cond(due, count, skip)


def _held(x: Tensor) -> Tensor:
    """The tensor in a variable or an array; slices and None as they are."""
    return x if x is None or isinstance(x, tf.IndexedSlices) else tf.convert_to_tensor(x)


def _is_batched(x: Tensor) -> bool:
    """Whether it can be measured with others in one go: its shape must be known."""
    if x is None or isinstance(x, tf.IndexedSlices):
        return False
    narrow = x.dtype.is_floating and x.dtype != tf.float64
    return bool(narrow and x.shape.is_fully_defined() and x.shape.num_elements())


def _summary(x: Tensor) -> Tensor:
    if x is None:
        return tf.constant(IDENTITY, tf.float64)
    if isinstance(x, tf.IndexedSlices):
        return _sparse_summary(x)
    return _dense_summary(tf.reshape(_widen(x), [-1]))


def _dense_summary(x: Tensor) -> Tensor:
    finite = tf.math.is_finite(x)
    kept = tf.cast(tf.where(finite, x, tf.zeros_like(x)), tf.float64)
    row = [
        tf.size(x, tf.int64),
        _count(tf.math.is_nan(x)),
        _count(x == np.inf),
        _count(x == -np.inf),
        _count(_is_zero(x)),
        tf.reduce_sum(kept),
        tf.reduce_sum(tf.abs(kept)),
        tf.reduce_sum(tf.square(kept)),
        # Infinite without elements, as in the reference.
        tf.reduce_min(tf.where(finite, x, np.inf)),
        tf.reduce_max(tf.where(finite, x, -np.inf)),
    ]
    return tf.stack([tf.cast(value, tf.float64) for value in row])


def _sparse_summary(x: Tensor) -> Tensor:
    """The summary of the dense tensor that slices stand for.

    Rows are absent (zero), or occur once or more (summed). Slices are summed by row into an
    array of as many rows as there are slices, so that shapes stay static, as XLA needs; its
    rows beyond `present` are unused.
    """
    rows, present, width, total = _sum_duplicates(x)
    used = tf.reshape(tf.range(tf.shape(rows)[0]) < present, [-1, 1]) & tf.ones_like(rows, tf.bool)
    # Unused rows become NaN, and are subtracted from the number of NaN.
    measured = _dense_summary(tf.reshape(tf.where(used, rows, np.nan), [-1]))
    unused = tf.cast(tf.size(rows) - present * width, tf.float64)
    absent = tf.cast(total - tf.cast(present * width, tf.int64), tf.float64)
    row = dict(zip(FIELDS, tf.unstack(measured, num=len(FIELDS)), strict=True))
    row["count"] = tf.cast(total, tf.float64)
    row["nan"] -= unused
    row["zeros"] += absent
    row["min"] = tf.where(absent > 0, tf.minimum(row["min"], 0.0), row["min"])
    row["max"] = tf.where(absent > 0, tf.maximum(row["max"], 0.0), row["max"])
    return tf.stack([row[name] for name in FIELDS])


def _sum_duplicates(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Summed rows, how many of them are in use, their width, and the dense size."""
    values = _widen(x.values)
    slices = tf.shape(values)[0]
    values = tf.reshape(values, [slices, -1])
    width = tf.size(values) // tf.maximum(slices, 1)
    order = tf.argsort(x.indices)
    indices = tf.gather(x.indices, order)
    starts = tf.concat([tf.ones([1], tf.bool), indices[1:] != indices[:-1]], 0)[:slices]
    row_of = tf.cumsum(tf.cast(starts, tf.int32)) - 1
    rows = tf.math.unsorted_segment_sum(tf.gather(values, order), row_of, slices)
    total = tf.reduce_prod(tf.cast(x.dense_shape, tf.int64))
    return rows, tf.reduce_sum(tf.cast(starts, tf.int32)), width, total


def _count_all(tensors: Sequence[Tensor | None]) -> Tensor:
    held = [_held(x) for x in tensors]
    batched = [i for i, x in enumerate(held) if _is_batched(x)]
    others = [i for i in range(len(held)) if i not in set(batched)]
    tables = [cells_by_rows([held[i] for i in batched])] if batched else []
    tables += [_cells(held[i])[None] for i in others]
    return tf.gather(tf.concat(tables, 0), np.argsort(batched + others))


def _cells(x: Tensor) -> Tensor:
    if x is None:
        return tf.zeros([CELLS], tf.int64)
    return _sparse_cells(x) if isinstance(x, tf.IndexedSlices) else cells_of(_widen(x))


def _sparse_cells(x: Tensor) -> Tensor:
    rows, present, width, total = _sum_duplicates(x)
    counted = cells_of(rows)
    # Unused rows are zero, like absent ones.
    unused = tf.cast(tf.size(rows) - present * width, tf.int64)
    absent = total - tf.cast(present * width, tf.int64)
    return counted + tf.one_hot(ZERO, CELLS, absent - unused, tf.zeros_like(absent))


def _widen(x: Tensor) -> Tensor:
    """float32 for the narrower floats, which is exact; float64 for whole numbers."""
    if x.dtype.is_complex:
        raise TypeError(f"Complex tensors cannot be summarised. Received: dtype={x.dtype.name}")
    if x.dtype == tf.float64:
        return x
    return tf.cast(x, tf.float32 if x.dtype.is_floating else tf.float64)


def _count(mask: Tensor) -> Tensor:
    return tf.reduce_sum(tf.cast(mask, tf.int64))


def _is_zero(x: Tensor) -> Tensor:
    # By the bits: TensorFlow's kernels take a denormal for 0 in a comparison.
    bits, form = _bits(x)
    return tf.bitwise.bitwise_and(bits, tf.constant(form.magnitude, bits.dtype)) == 0


def _bits(x: Tensor) -> tuple[Tensor, FloatBits]:
    form = FLOAT64_BITS if x.dtype == tf.float64 else FLOAT32_BITS
    return tf.bitcast(x, tf.dtypes.as_dtype(form.integer)), form
