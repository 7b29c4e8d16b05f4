"""Statistics of the rows of many TensorFlow tensors, and how those of a tensor come together.

Sums over a row run in float32, and in float64 over the rows. That is right as long as all
elements are finite, their squares fit a float32 and they are not all alike. Where that is not so,
which the results show, a careful way is taken instead. Small tensors are often all alike, scales
around 1, say. There, a row's sums are those of its differences from about its mean, and its own
follow from them: so their spread is not lost in rounding. It is the same in a graph, under XLA
and eagerly; in a graph on a CPU, XLA compiles those of large tensors (`tensorflow_fused`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from gradwatch.measure.layout import FLOAT32_BITS
from gradwatch.measure.rows import MOST_PIECES, OFTEN, Block, Matrix, Rows, are_alike, filler
from gradwatch.measure.tensorflow_fused import fused, is_compiled, settled

WIDTH, LARGE = 128, 1 << 16  # 128 keep the error of a float32 sum, one by one, near 1e-6.
TOGETHER = 256
"""How many small tensors are laid out together. TensorFlow works out the shape of what they are
concatenated to anew for each of them, so the time to prepare a graph grows with the square."""


class Table(NamedTuple):
    """For each row, or for each tensor: sums (one column each), minimum and maximum."""

    sums: Any
    low: Any
    high: Any


_NONE = Table(0.0, np.inf, -np.inf)
"""What a row says that has no elements."""


def summarize_rows(tensors: Sequence[Any]) -> Any:
    """Packed summaries of float32 tensors or narrower ones, of known shapes, not empty."""
    sizes_of = [x.shape.num_elements() for x in tensors]
    together = MOST_PIECES if is_compiled() else TOGETHER
    rows = Rows.of(sizes_of, WIDTH, LARGE, [tf.float32] * len(tensors), together)
    sizes = np.array(rows.sizes, np.float64)
    matrices = _matrices(rows, tensors)
    large = len(rows.alone)
    quick_tables = [_quick(matrix.values) for matrix in matrices[:large]]
    quick_tables += [_centred(matrix) for matrix in matrices[large:]]
    table = _brought_together(rows, quick_tables)
    nonzero, total, magnitude, squares = tf.unstack(table.sums, num=4)
    # Squares below 1.2e-38 are lost: too many of them, if this is all that there is. Not
    # if all is zero; and anything that is not finite shows in the sum of magnitudes.
    lost = (squares < sizes * 1.2e-31) & (nonzero > 0)
    # Asked so, since in a graph TensorFlow takes "not below" for "at least", also for a NaN.
    wrong = lost | ~tf.math.is_finite(squares) | ~tf.math.is_finite(magnitude)
    wrong |= rows.is_alone & are_alike(total, squares, sizes)

    def quick() -> Any:
        none = tf.zeros_like(total)
        columns = [none, none, none, sizes - nonzero, total, magnitude, squares]
        return _packed(sizes, columns, table)

    def careful() -> Any:
        tables = [_exact(matrix.values) for matrix in matrices[:large]]
        tables += [_exact_padded(matrix) for matrix in matrices[large:]]
        exact = _brought_together(rows, tables)
        return _packed(sizes, tf.unstack(exact.sums, num=7), exact)

    return tf.cond(tf.reduce_any(wrong), careful, quick)


def _matrices(rows: Rows, tensors: Sequence[Any]) -> list[Matrix]:
    """The rows of each large tensor and, last, of all pieces."""
    whole = tf.constant([-1])  # Shared, since each node of a graph takes its time.
    flat = [tf.cast(x if x.shape.rank == 1 else tf.reshape(x, whole), tf.float32) for x in tensors]

    def part(i: int, start: int, end: int) -> Any:
        return flat[i] if end - start == rows.sizes[i] else flat[i][start:end]

    found = [
        Matrix(tf.reshape(part(i, 0, rows.head(i)), [-1, rows.width]), None) for i in rows.alone
    ]
    # A node more for each in a graph; but XLA takes longer to compile copies of a few numbers.
    is_often = {n for n, many in Counter(rows.sizes).items() if many >= OFTEN and is_compiled()}
    around = {n: tf.constant([[0, -n % rows.width]]) for n in is_often}
    fillers: dict[int, Any] = {}
    for chunk in rows.chunks:
        parts = []
        for piece in chunk:
            x = part(piece.tensor, piece.start, piece.start + piece.length)
            missing = rows.padding(piece)
            if missing and rows.sizes[piece.tensor] in is_often:
                x, missing = tf.pad(x, around[rows.sizes[piece.tensor]]), 0
            parts.append(x)
            missing += rows.width * rows.spare(chunk) if piece is chunk[-1] else 0
            if missing:
                if missing not in fillers:
                    fillers[missing] = tf.constant(filler(missing, np.float32))
                parts.append(fillers[missing])
        together = tf.reshape(settled(tf.concat(parts, 0)), [-1, rows.width])
        lengths = np.append(rows.lengths(chunk), np.full(rows.spare(chunk), rows.width))
        found.append(Matrix(together, lengths))
    return found


def _brought_together(rows: Rows, tables: Sequence[Table]) -> Table:
    """The tensors' statistics from those of their rows, in float64."""
    # Without those of a chunk's spare rows.
    cut = [
        Table(*(column[..., :height] for column in table)) if height < table.low.shape[0] else table
        for table, height in zip(tables, rows.heights, strict=True)
    ]
    every = Table(*(tf.concat(column, -1) for column in zip(*cut, strict=True)))
    parts = []
    for block in rows.blocks:
        same = Table(*(_rows_of(block, *each) for each in zip(every, _NONE, strict=True)))
        parts.append(
            Table(
                tf.reduce_sum(same.sums, -1),
                tf.reduce_min(same.low, -1),
                tf.reduce_max(same.high, -1),
            )
        )
    both = Table(*(tf.concat(column, -1) for column in zip(*parts, strict=True)))
    first = Table(*(tf.gather(column, rows.firsts, axis=-1) for column in both))
    if not rows.rests:
        return first
    nothing = len(rows.alone) + len(rows.pieces)
    places = [rows.rests.get(i, nothing) for i in range(len(rows.sizes))]
    rest = Table(
        *(tf.gather(_with(*each), places, axis=-1) for each in zip(both, _NONE, strict=True))
    )
    return Table(
        first.sums + rest.sums,
        tf.minimum(first.low, rest.low),
        tf.maximum(first.high, rest.high),
    )


def _rows_of(block: Block, column: Any, none: float) -> Any:
    if block.which is not None:
        return tf.gather(_with(column, none), block.which, axis=-1)
    part = column[..., block.start : block.start + block.many * block.each]
    return tf.reshape(part, [*part.shape[:-1], -1, block.each])


def _with(column: Any, none: float) -> Any:
    """One more row, which says nothing."""
    around = [[0, 0]] * (column.shape.rank - 1) + [[0, 1]]
    return tf.pad(column, around, constant_values=none)


def _packed(sizes: Any, columns: Sequence[Any], table: Table) -> Any:
    """Ten columns, in the order of `gradwatch.summary.FIELDS`."""
    return tf.stack([tf.constant(sizes), *columns, table.low, table.high], axis=1)


@fused
def _quick(x: Any) -> Table:
    """The statistics of whole rows of finite numbers that are not all alike."""
    operands = (_nonzero(x), x, tf.abs(x), tf.square(x))
    sums = tf.stack([tf.cast(_add(each), tf.float64) for each in operands])
    return Table(sums, *_bounds(x, x))


def _centred(matrix: Matrix) -> Table:
    """The statistics of rows of finite numbers, by way of differences from about their means."""
    x = matrix.values
    lengths = matrix.lengths.astype(np.float32)
    is_padded = bool((matrix.lengths < x.shape[1]).any())
    # In place of padding, which is 0, a number that the row has.
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
    return Table(sums, low, high)


@fused
def _exact(x: Any) -> Table:
    """The statistics of whole rows, whatever the numbers are."""
    return _exact_padded(Matrix(x, None))


def _exact_padded(matrix: Matrix) -> Table:
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
    return Table(tf.stack(sums), *_bounds(low, high))


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


def _bounds(low: Any, high: Any) -> tuple[Any, Any]:
    return (
        tf.cast(tf.reduce_min(low, 1), tf.float64),
        tf.cast(tf.reduce_max(high, 1), tf.float64),
    )


def _within(matrix: Matrix) -> Any:
    return tf.range(matrix.values.shape[1]) < matrix.lengths[:, None].astype(np.int32)


def _nonzero(x: Any) -> Any:
    # By the bits: TensorFlow's kernels take a denormal for 0 in a comparison. Twice the
    # bits are those without the sign.
    bits = tf.bitcast(x, tf.dtypes.as_dtype(FLOAT32_BITS.integer))
    return tf.cast(tf.cast(bits * 2, tf.bool), tf.float32)
