"""Statistics of the rows of many TensorFlow tensors, and how those of a tensor come together.

Sums over a row run in float32, and in float64 over the rows. That is right as long as all
elements are finite, their squares fit a float32 and they are not all alike. Where that is not so,
which the results show, a careful way is taken instead. Small tensors are often all alike, scales
around 1, say. There, a row's sums are those of its differences from about its mean, and its own
follow from them: so their spread is not lost in rounding. It is the same in a graph, under XLA
and eagerly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gradwatch.measure.layout import FLOAT32_BITS
from gradwatch.measure.rows import Matrix, Rows, Table

WIDTH, LARGE = 128, 1 << 16  # 128 keep the error of a float32 sum, one by one, near 1e-6.


def summarize_rows(tensors: Sequence[Any]) -> Any:
    """Packed summaries of float32 tensors or narrower ones, of known shapes, not empty."""
    rows = Rows.of([x.shape.num_elements() for x in tensors], WIDTH, LARGE)
    sizes = np.array(rows.sizes, np.float64)
    matrices = _matrices(rows, tensors)
    large = len(rows.alone)
    quick_tables = [_quick(m) for m in matrices[:large]] + [_centred(m) for m in matrices[large:]]
    table = _brought_together(rows, quick_tables)
    nonzero, total, magnitude, squares = tf.unstack(table.sums, num=4)
    # Squares below 1.2e-38 are lost: too many of them, if this is all that there is. Not
    # if all is zero; and anything that is not finite shows in the sum of magnitudes.
    lost = (squares < sizes * 1.2e-31) & (nonzero > 0)
    # Asked so, since in a graph TensorFlow takes "not below" for "at least", also for a NaN.
    wrong = lost | ~tf.math.is_finite(squares) | ~tf.math.is_finite(magnitude)
    wrong |= rows.is_alone & rows.are_alike(total, squares)

    def quick() -> Any:
        none = tf.zeros_like(total)
        columns = [none, none, none, sizes - nonzero, total, magnitude, squares]
        return _packed(sizes, columns, table)

    def careful() -> Any:
        exact = _brought_together(rows, [_exact(matrix) for matrix in matrices])
        return _packed(sizes, tf.unstack(exact.sums, num=7), exact)

    return tf.cond(tf.reduce_any(wrong), careful, quick)


def _matrices(rows: Rows, tensors: Sequence[Any]) -> list[Matrix]:
    """The rows of all heads and, last, of the tails."""
    flat = [tf.cast(tf.reshape(x, [-1]), tf.float32) for x in tensors]

    def head(i: int) -> Any:
        whole = flat[i] if not rows.tail(i) else flat[i][: rows.head(i)]
        return tf.reshape(whole, [-1, rows.width])

    found = [Matrix(head(i), None) for i in rows.alone]
    if rows.together:
        found.append(Matrix(tf.concat([head(i) for i in rows.together], 0), None))
    if rows.tails:
        lengths = [rows.tail(i) for i in rows.tails]
        padded = []
        for length, same in rows.equal_tails:
            matrix = tf.reshape(tf.concat([flat[i][rows.head(i) :] for i in same], 0), [-1, length])
            padded.append(tf.pad(matrix, [[0, 0], [0, rows.width - length]]))
        found.append(Matrix(tf.concat(padded, 0), np.array(lengths)))
    return found


def _brought_together(rows: Rows, tables: list[Table]) -> Table:
    """The tensors' statistics from those of their rows, in float64."""
    parts = []
    if rows.tails:
        parts.append((tables.pop(), rows.places(rows.tails)))
    if tables:
        every = Table(*(tf.concat(column, -1) for column in zip(*tables, strict=True)))
        start, heads = 0, []
        for tensors, each in rows.blocks:
            block = slice(start, start + tensors * each)
            start += tensors * each
            heads.append(
                Table(
                    tf.reduce_sum(_cut(every.sums, block, each), -1),
                    tf.reduce_min(_cut(every.low, block, each), -1),
                    tf.reduce_max(_cut(every.high, block, each), -1),
                )
            )
        both = Table(*(tf.concat(column, -1) for column in zip(*heads, strict=True)))
        parts.append((both, rows.places(rows.heads)))
    found = [
        Table(
            _taken(part.sums, places, 0.0),
            _taken(part.low, places, np.inf),
            _taken(part.high, places, -np.inf),
        )
        for part, places in parts
    ]
    if len(found) == 1:
        return found[0]
    a, b = found
    return Table(a.sums + b.sums, tf.minimum(a.low, b.low), tf.maximum(a.high, b.high))


def _cut(column: Any, block: slice, each: int) -> Any:
    part = column[..., block]
    return tf.reshape(part, [*part.shape[:-1], -1, each])


def _taken(values: Any, places: list[int], otherwise: float) -> Any:
    """The values at these places; the one after the last is `otherwise`."""
    if places == list(range(values.shape[-1])):
        return values
    around = [[0, 0]] * (values.shape.rank - 1) + [[0, 1]]
    return tf.gather(tf.pad(values, around, constant_values=otherwise), places, axis=-1)


def _packed(sizes: Any, columns: Sequence[Any], table: Table) -> Any:
    """Ten columns, in the order of `gradwatch.summary.FIELDS`."""
    return tf.stack([tf.constant(sizes), *columns, table.low, table.high], axis=1)


def _quick(matrix: Matrix) -> Table:
    """The statistics of whole rows of finite numbers that are not all alike."""
    x = matrix.values
    operands = (_nonzero(x), x, tf.abs(x), tf.square(x))
    sums = tf.stack([tf.cast(_add(each), tf.float64) for each in operands])
    return Table(sums, *_bounds(matrix, x, x))


def _centred(matrix: Matrix) -> Table:
    """The statistics of rows of finite numbers, by way of differences from about their means."""
    x = matrix.values
    lengths = np.float32(x.shape[1])
    if matrix.lengths is not None:
        lengths = matrix.lengths.astype(np.float32)
    low, high = _bounds(matrix, x, x)
    middle = _middle(_add(x) / lengths, tf.cast(high - low, tf.float32))
    difference = x - middle[:, None]
    if matrix.lengths is not None:
        difference = tf.where(_within(matrix), difference, tf.zeros_like(x))
    operands = (_nonzero(x), tf.abs(x), difference, tf.square(difference))
    nonzero, magnitude, rest, squares = (tf.cast(_add(each), tf.float64) for each in operands)
    middle = tf.cast(middle, tf.float64)
    whole = middle * lengths.astype(np.float64)
    sums = tf.stack([nonzero, whole + rest, magnitude, squares + middle * (whole + 2.0 * rest)])
    return Table(sums, low, high)


def _exact(matrix: Matrix) -> Table:
    x = matrix.values
    finite = tf.math.is_finite(x)
    kept = tf.cast(tf.where(finite, x, tf.zeros_like(x)), tf.float64)
    padding = 0 if matrix.lengths is None else x.shape[1] - matrix.lengths
    counts = [tf.math.is_nan(x), x == np.inf, x == -np.inf]
    sums = [tf.cast(_add(tf.cast(each, tf.float32)), tf.float64) for each in counts]
    sums.append(x.shape[1] - padding - tf.cast(_add(_nonzero(x)), tf.float64))
    sums += [tf.reduce_sum(each, 1) for each in (kept, tf.abs(kept), tf.square(kept))]
    low, high = tf.where(finite, x, np.inf), tf.where(finite, x, -np.inf)
    return Table(tf.stack(sums), *_bounds(matrix, low, high))


def _middle(mean: Any, spread: Any) -> Any:
    """The mean; where the numbers are not all close to it, to 9 bits only.

    Differences from that are exact where the numbers are small and whole.
    """
    bits = tf.bitwise.bitwise_and(tf.bitcast(mean, tf.int32), tf.constant(-(1 << 15)))
    return tf.where(spread > tf.abs(mean) / 16, tf.bitcast(bits, tf.float32), mean)


def _add(x: Any) -> Any:
    if tf.config.list_physical_devices("GPU"):
        return tf.reduce_sum(x, 1)  # Products on a GPU may run in fewer bits.
    # On a CPU a product with ones runs on all cores and vector units, in a graph and
    # under XLA, where XLA runs a sum of squares element by element.
    return tf.linalg.matvec(x, tf.ones([x.shape[1]]))


def _bounds(matrix: Matrix, low: Any, high: Any) -> tuple[Any, Any]:
    if matrix.lengths is not None:
        within = _within(matrix)
        low, high = tf.where(within, low, np.inf), tf.where(within, high, -np.inf)
    return (
        tf.cast(tf.reduce_min(low, 1), tf.float64),
        tf.cast(tf.reduce_max(high, 1), tf.float64),
    )


def _within(matrix: Matrix) -> Any:
    return np.arange(matrix.values.shape[1]) < matrix.lengths[:, None]


def _nonzero(x: Any) -> Any:
    # By the bits: TensorFlow's kernels take a denormal for 0 in a comparison. Twice the
    # bits are those without the sign.
    bits = tf.bitcast(x, tf.dtypes.as_dtype(FLOAT32_BITS.integer))
    return tf.cast(tf.cast(bits * 2, tf.bool), tf.float32)
