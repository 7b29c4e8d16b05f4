"""Summaries of many TensorFlow tensors by the rows that they are cut into.

Sums over a row run in float32, and over the rows in float64; see `jax_rows` for when that is right
and what happens otherwise. It is the same in a graph, under XLA and eagerly; in a graph on a CPU,
XLA compiles the reductions of large tensors (`tensorflow_fused`).
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from gradwatch.core import Tensor
from gradwatch.measure.kernels.float_bits import FLOAT32_BITS
from gradwatch.measure.kernels.row_layout import (
    MAX_PIECES,
    Matrix,
    Piece,
    RowLayout,
    are_alike,
    filler,
)
from gradwatch.measure.kernels.tensorflow_fused import fused, is_compiled, settled

WIDTH, LARGE = 128, 1 << 16  # 128 keep the error of a float32 sum, one by one, near 1e-6.
TOGETHER = 256
"""The highest number of small tensors in a matrix. TensorFlow infers the shape of a concatenation
anew for each of them, so the time to prepare a graph grows with the square."""


class RowStatistics(NamedTuple):
    """For each row, or for each tensor: sums (one column each), minimum and maximum."""

    sums: Tensor
    low: Tensor
    high: Tensor


_NONE = RowStatistics(0.0, np.inf, -np.inf)
"""Of a row without elements."""
_REDUCE = RowStatistics(tf.reduce_sum, tf.reduce_min, tf.reduce_max)


def summarize_rows(tensors: Sequence[Tensor]) -> Tensor:
    """Packed summaries of float32 tensors or narrower ones, of known shapes, not empty."""
    sizes_of = [x.shape.num_elements() for x in tensors]
    together = MAX_PIECES if is_compiled() else TOGETHER
    layout = RowLayout.of(sizes_of, WIDTH, LARGE, [tf.float32] * len(tensors), together)
    sizes = np.array(layout.sizes, np.float64)
    matrices = matrices_of(layout, tensors)
    large = len(layout.alone)
    quick_tables = [_quick(matrix.values) for matrix in matrices[:large]]
    quick_tables += [_centred(matrix) for matrix in matrices[large:]]
    table = _merge_rows(layout, quick_tables)
    nonzero, total, magnitude, squares = tf.unstack(table.sums, num=4)
    # As in `jax_rows`.
    lost = (squares < sizes * 1.2e-31) & (nonzero > 0)
    # Not by "not below": in a graph TensorFlow takes it for "at least", also for a NaN.
    wrong = lost | ~tf.math.is_finite(squares) | ~tf.math.is_finite(magnitude)
    wrong |= layout.is_alone & are_alike(total, squares, sizes)

    def quick() -> Tensor:
        none = tf.zeros_like(total)
        columns = [none, none, none, sizes - nonzero, total, magnitude, squares]
        return _packed(sizes, columns, table)

    def careful() -> Tensor:
        tables = [_exact(matrix.values) for matrix in matrices[:large]]
        tables += [_exact_padded(matrix) for matrix in matrices[large:]]
        exact = _merge_rows(layout, tables)
        return _packed(sizes, tf.unstack(exact.sums, num=7), exact)

    return tf.cond(tf.reduce_any(wrong), careful, quick)


def matrices_of(layout: RowLayout, tensors: Sequence[Tensor]) -> list[Matrix]:
    """The whole rows of each large tensor, then the matrix of each chunk."""
    whole = tf.constant([-1])  # Shared, since each node of a graph takes its time.
    flat = [tf.cast(x if x.shape.rank == 1 else tf.reshape(x, whole), tf.float32) for x in tensors]

    def cut(piece: Piece) -> Tensor:
        x = flat[piece.tensor]
        is_whole = piece.length == layout.sizes[piece.tensor]
        return x if is_whole else x[piece.start : piece.start + piece.length]

    @cache
    def fill(length: int) -> Tensor:
        return tf.constant(filler(length, np.float32))

    @cache
    def around(missing: int) -> Tensor:
        return tf.constant([[0, 0], [0, missing]])

    def pad(same: list[Tensor], missing: int) -> Tensor:
        rows = tf.reshape(settled(tf.concat(same, 0)), [len(same), -1])
        return tf.reshape(tf.pad(rows, around(missing)), whole)

    found = []
    for i in layout.alone:
        head = cut(Piece(i, 0, layout.head(i)))
        found.append(Matrix(tf.reshape(head, [-1, layout.width]), None))
    for chunk in layout.chunks:
        parts = layout.parts(chunk, cut, fill, pad)
        joined = tf.reshape(settled(tf.concat(parts, 0)), [-1, layout.width])
        found.append(Matrix(joined, layout.lengths(chunk)))
    return found


def _merge_rows(layout: RowLayout, tables: Sequence[RowStatistics]) -> RowStatistics:
    """The statistics of the tensors from those of their rows, in float64."""
    columns = zip(zip(*tables, strict=True), _NONE, _REDUCE, strict=True)
    return RowStatistics(*(_merge_column(layout, *column) for column in columns))


def _merge_column(
    layout: RowLayout, parts: Sequence[Tensor], none: float, reduce: Callable[[Tensor, int], Tensor]
) -> Tensor:
    nothing = np.full([*parts[0].shape[:-1], 1], none)
    # Without the spare rows of chunks.
    heights = zip(parts, layout.heights, strict=True)
    used = [part if part.shape[-1] == n else part[..., :n] for part, n in heights]
    every = tf.concat([*used, nothing], -1)
    merged = []
    for block in layout.blocks:
        if block.which is not None:
            rows = tf.gather(every, block.which, axis=-1)
        else:
            part = every[..., block.start : block.start + block.many * block.each]
            rows = tf.reshape(part, [*part.shape[:-1], -1, block.each])
        merged.append(reduce(rows, -1))
    return reduce(tf.gather(tf.concat([*merged, nothing], -1), layout.places, axis=-1), -1)


def _packed(sizes: Tensor, columns: Sequence[Tensor], table: RowStatistics) -> Tensor:
    """Ten columns, in the order of `gradwatch.core.FIELDS`."""
    return tf.stack([tf.constant(sizes), *columns, table.low, table.high], axis=1)


@fused
def _quick(x: Tensor) -> RowStatistics:
    """The statistics of whole rows of finite numbers that are not nearly equal."""
    operands = (_nonzero(x), x, tf.abs(x), tf.square(x))
    sums = tf.stack([tf.cast(_add(each), tf.float64) for each in operands])
    return RowStatistics(sums, *_bounds(x, x))


def _centred(matrix: Matrix) -> RowStatistics:
    """The statistics of rows of finite numbers, from differences from about their means."""
    x = matrix.values
    lengths = matrix.lengths.astype(np.float32)
    is_padded = bool((matrix.lengths < x.shape[1]).any())
    # Padding is 0: replace it by a number of the row.
    within = _within(matrix) if is_padded else None
    known = tf.where(within, x, x[:, :1]) if is_padded else x
    low, high = _bounds(known, known)
    middle = _middle(_add(x) / lengths, tf.cast(high - low, tf.float32))
    difference = x - middle[:, None]
    if is_padded:
        difference = tf.where(within, difference, tf.zeros_like(x))
    operands = (_nonzero(x), tf.abs(x), difference, tf.square(difference))
    nonzero, magnitude, rest, squares = (tf.cast(_add(each), tf.float64) for each in operands)
    middle = tf.cast(middle, tf.float64)
    whole = middle * lengths.astype(np.float64)
    sums = tf.stack([nonzero, whole + rest, magnitude, squares + middle * (whole + 2.0 * rest)])
    return RowStatistics(sums, low, high)


@fused
def _exact(x: Tensor) -> RowStatistics:
    """The statistics of whole rows of any numbers."""
    return _exact_padded(Matrix(x, None))


def _exact_padded(matrix: Matrix) -> RowStatistics:
    x = matrix.values
    finite = tf.math.is_finite(x)
    kept = tf.cast(tf.where(finite, x, tf.zeros_like(x)), tf.float64)
    padding = 0 if matrix.lengths is None else x.shape[1] - matrix.lengths
    counts = [tf.math.is_nan(x), x == np.inf, x == -np.inf]
    sums = [tf.cast(_add(tf.cast(each, tf.float32)), tf.float64) for each in counts]
    sums.append(x.shape[1] - padding - tf.cast(_add(_nonzero(x)), tf.float64))
    sums += [tf.reduce_sum(each, 1) for each in (kept, tf.abs(kept), tf.square(kept))]
    known = finite if matrix.lengths is None else finite & _within(matrix)
    low, high = tf.where(known, x, np.inf), tf.where(known, x, -np.inf)
    return RowStatistics(tf.stack(sums), *_bounds(low, high))


def _middle(mean: Tensor, spread: Tensor) -> Tensor:
    """The mean; where the numbers are not all close to it, to 9 bits only.

    Differences from that are exact where the numbers are small and whole.
    """
    bits = tf.bitwise.bitwise_and(tf.bitcast(mean, tf.int32), tf.constant(-(1 << 15)))
    return tf.where(spread > tf.abs(mean) / 16, tf.bitcast(bits, tf.float32), mean)


def _add(x: Tensor) -> Tensor:
    if tf.config.list_physical_devices("GPU"):
        return tf.reduce_sum(x, 1)  # Products on a GPU may run in fewer bits.
    # On a CPU a product with ones runs on all cores and vector units, in a graph and
    # under XLA, where XLA runs a sum of squares element by element.
    return tf.linalg.matvec(x, tf.ones([x.shape[1]]))


def _bounds(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    return (
        tf.cast(tf.reduce_min(low, 1), tf.float64),
        tf.cast(tf.reduce_max(high, 1), tf.float64),
    )


def _within(matrix: Matrix) -> Tensor:
    return tf.range(matrix.values.shape[1]) < matrix.lengths[:, None].astype(np.int32)


def _nonzero(x: Tensor) -> Tensor:
    # By the bits: TensorFlow's kernels take a denormal for 0 in a comparison. Twice the
    # bits are those without the sign.
    bits = tf.bitcast(x, tf.dtypes.as_dtype(FLOAT32_BITS.integer))
    return tf.cast(tf.cast(bits * 2, tf.bool), tf.float32)
