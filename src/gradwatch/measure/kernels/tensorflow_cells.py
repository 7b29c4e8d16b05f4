"""Histogram cells of TensorFlow tensors.

The top bits of each float (sign, exponent, first bits of the mantissa) are counted, which takes one
shift and one kernel. The cells follow from the few thousand counts. Small tensors are counted
together.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from gradwatch.core import BINS_A_SIDE, Tensor
from gradwatch.measure.kernels.float_bits import FLOAT32_BITS, FLOAT64_BITS, FloatBits

LARGE = 1 << 16


def cells_of(flat: Sequence[Tensor]) -> Tensor:
    """The cells of flat tensors, all of float32 or all of float64, one row each."""
    form = FLOAT64_BITS if flat[0].dtype == tf.float64 else FLOAT32_BITS
    bits = [tf.bitcast(x, tf.dtypes.as_dtype(form.integer)) for x in flat]
    small = [i for i, x in enumerate(flat) if (x.shape.num_elements() or LARGE) < LARGE]
    order = [i for i in range(len(flat)) if i not in set(small)] + small
    tables = [_counted(_key(bits[i], form), form.keys)[None] for i in order[: -len(small) or None]]
    if small:
        tables.append(_counted_together([bits[i] for i in small], form))
    counts = tf.gather(tf.concat(tables, 0), np.argsort(order))
    # Mostly there are none: zeros are counted only if there may be any.
    tiny = counts[:, 0] + counts[:, form.keys // 2]

    def look() -> Tensor:
        return tf.stack([[_count(b * 2 == 0), _count(b == b.dtype.min)] for b in bits])

    zeros = tf.cond(tf.reduce_any(tiny > 0), look, lambda: tf.zeros((len(flat), 2), tf.int64))
    return _folded(counts, zeros[:, 0], zeros[:, 1], form)


def _key(bits: Tensor, form: FloatBits) -> Tensor:
    shifted = tf.bitwise.right_shift(bits, tf.constant(form.shift, bits.dtype))
    return tf.bitwise.bitwise_and(tf.cast(shifted, tf.int32), form.keys - 1)


def _counted(key: Tensor, size: int) -> Tensor:
    none = tf.zeros([0], tf.int64)  # No weights: each counts once.
    return tf.raw_ops.DenseBincount(input=key, size=size, weights=none, binary_output=False)


def _counted_together(bits: Sequence[Tensor], form: FloatBits) -> Tensor:
    lengths = [b.shape.num_elements() for b in bits]
    first = np.repeat(np.arange(len(bits), dtype=np.int32) * form.keys, lengths)
    key = _key(tf.concat(bits, 0), form) + first
    return tf.reshape(_counted(key, len(bits) * form.keys), [len(bits), form.keys])


def _folded(counts: Tensor, zeros: Tensor, negative_zeros: Tensor, form: FloatBits) -> Tensor:
    """Cells from counts by top bits; the zeros include the negative ones."""
    lowest, top = form.lowest, form.lowest + BINS_A_SIDE
    infinity, half = form.infinity >> form.shift, form.keys // 2
    positive, negative = counts[:, :half], counts[:, half:]

    def total(part: Tensor) -> Tensor:
        return tf.reduce_sum(part, 1, keepdims=True)

    parts = [
        total(negative[:, top:infinity]),
        tf.reverse(negative[:, lowest:top], [1]),
        total(negative[:, :lowest]) - negative_zeros[:, None],
        zeros[:, None],
        total(positive[:, :lowest]) - (zeros - negative_zeros)[:, None],
        positive[:, lowest:top],
        total(positive[:, top:infinity]),
        total(positive[:, infinity:]) + total(negative[:, infinity:]),
    ]
    return tf.concat(parts, 1)


def _count(mask: Tensor) -> Tensor:
    return tf.reduce_sum(tf.cast(mask, tf.int64))
