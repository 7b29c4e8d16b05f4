"""Histogram cells of TensorFlow tensors.

The top bits of each float (sign, exponent, first bits of the mantissa) are counted, which takes one
shift and one kernel; zeros have a counter of their own. The cells follow from the few thousand
counts. Tensors of known shape are laid out in rows and counted together, with counters for each:
every operation of a graph takes time to trace and to compile.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from gradwatch.core import BINS_A_SIDE, CELLS, ZERO, Tensor
from gradwatch.measure.kernels.float_bits import FLOAT32_BITS, FLOAT64_BITS, FloatBits
from gradwatch.measure.kernels.row_layout import MAX_ELEMENTS, RowLayout
from gradwatch.measure.kernels.tensorflow_rows import TOGETHER, WIDTH, matrices_of


def cells_of(x: Tensor) -> Tensor:
    """The cells of one float32 or float64 tensor of any shape."""
    form = FLOAT64_BITS if x.dtype == tf.float64 else FLOAT32_BITS
    return _folded(_counted(_key(x, form), form.keys + 1)[None], form)[0]


def cells_by_rows(tensors: Sequence[Tensor]) -> Tensor:
    """The cells of float32 tensors or narrower ones, of known shapes, not empty; one row each."""
    form, sizes = FLOAT32_BITS, [x.shape.num_elements() for x in tensors]
    layout = RowLayout.of(sizes, WIDTH, MAX_ELEMENTS, [tf.float32] * len(sizes), TOGETHER)
    heights = [[height] for height in layout.heights[: len(layout.alone)]]
    heights += [[layout.height(piece) for piece in chunk] for chunk in layout.chunks]
    counts = []
    for matrix, each in zip(matrices_of(layout, tensors), heights, strict=True):
        first = np.repeat(np.arange(len(each), dtype=np.int32) * (form.keys + 1), each)
        # Without the spare rows of chunks.
        key = _key(matrix.values[: len(first)], form) + first[:, None]
        counted = _counted(key, len(each) * (form.keys + 1))
        counts.append(tf.reshape(counted, [len(each), -1]))
    nothing = np.zeros([1, CELLS], np.int64)
    cells = tf.concat([_folded(tf.concat(counts, 0), form), nothing], 0)
    padding = np.zeros([len(sizes), CELLS], np.int64)
    for piece in layout.pieces:
        padding[piece.tensor, ZERO] = layout.padding(piece)
    return tf.reduce_sum(tf.gather(cells, layout.places), 1) - padding


def _key(x: Tensor, form: FloatBits) -> Tensor:
    """The top bits of each element, or the number after all of these for a zero."""
    bits = tf.bitcast(x, tf.dtypes.as_dtype(form.integer))
    shifted = tf.bitwise.right_shift(bits, tf.constant(form.shift, bits.dtype))
    key = tf.bitwise.bitwise_and(tf.cast(shifted, tf.int32), form.keys - 1)
    # Twice the bits are those without the sign.
    return tf.where(tf.equal(bits * 2, 0), form.keys, key)


def _counted(key: Tensor, size: int) -> Tensor:
    none = tf.zeros([0], tf.int64)  # No weights: each counts once.
    key = tf.reshape(key, [-1])
    return tf.raw_ops.DenseBincount(input=key, size=size, weights=none, binary_output=False)


def _folded(counts: Tensor, form: FloatBits) -> Tensor:
    """Cells from counts by keys, one row a tensor."""
    lowest, top = form.lowest, form.lowest + BINS_A_SIDE
    infinity, half = form.infinity >> form.shift, form.keys // 2
    positive, negative = counts[:, :half], counts[:, half : form.keys]

    def total(part: Tensor) -> Tensor:
        return tf.reduce_sum(part, 1, keepdims=True)

    parts = [
        total(negative[:, top:infinity]),
        tf.reverse(negative[:, lowest:top], [1]),
        total(negative[:, :lowest]),
        counts[:, form.keys :],
        total(positive[:, :lowest]),
        positive[:, lowest:top],
        total(positive[:, top:infinity]),
        total(positive[:, infinity:]) + total(negative[:, infinity:]),
    ]
    return tf.concat(parts, 1)
