"""Statistics of the rows of many JAX arrays, and how those of a tensor come together.

A CPU and a GPU want different code, measured on both (`benchmarks/kernel_jax.py`):

- On a GPU sums run in float64. Large tensors are read by a kernel of our own (`jax_pallas`)
  where it works; else, and for small ones, one reduction of several operands reads each once.
- On a CPU, XLA runs such a reduction element by element, but a plain float32 sum, minimum
  or maximum on all cores and vector units. Several of those beat the single one by far.
  They are right as long as all elements are finite, their squares fit a float32 and they are
  not all alike; where that is not so, which the results show, a careful way is taken instead.
  Small tensors are often all alike, scales around 1, say. There, a row's sums are those of its
  differences from about its mean, and its own follow from them: so their spread is not lost
  in rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import gradwatch.measure.jax_pallas as jax_pallas
from gradwatch.measure.layout import FLOAT32_BITS
from gradwatch.measure.rows import Matrix, Rows, Table, are_alike
from gradwatch.summary import IDENTITY

# Sums over a row run in float32 on a CPU: 512 keep its error below 1e-6. A row's counts
# share an int32 on a GPU, so a row there may be no longer than 32767.
CPU_WIDTH, CPU_LARGE = 512, 1 << 16
GPU_WIDTH, GPU_LARGE = 1024, 1 << 17


def on_cpu(tensors: Sequence[Any]) -> Any:
    """Packed summaries of float32 arrays or narrower ones, one row a tensor."""
    # Else XLA computes gradients and updates once more where they are laid out together, in
    # one kernel of them all, which takes long to compile.
    tensors = lax.optimization_barrier(list(tensors))
    rows = Rows.of([x.size for x in tensors], CPU_WIDTH, CPU_LARGE)
    sizes = np.array(rows.sizes, np.float64)
    matrices = _matrices(rows, tensors, np.float32(0))
    large = len(rows.alone)
    quick_tables = [_quick(m) for m in matrices[:large]] + [_centred(m) for m in matrices[large:]]
    table = _brought_together(rows, quick_tables)
    nonzero, total, magnitude, squares = table.sums
    # Squares below 1.2e-38 are lost: too many of them, if this is all that there is. Not
    # if all is zero; and anything that is not finite shows in the sum of magnitudes.
    lost = (squares < sizes * 1.2e-31) & (nonzero > 0)
    wrong = lost | ~(squares < np.inf) | ~(magnitude < np.inf)
    wrong |= rows.is_alone & are_alike(total, squares, sizes)

    def quick() -> Any:
        none = jnp.zeros_like(total)
        columns = (none, none, none, sizes - nonzero, total, magnitude, squares)
        return _packed(sizes, columns, table)

    def careful() -> Any:
        with_nan = [_padded_with_nan(matrix) for matrix in matrices]
        return _exact(rows, with_nan)

    return lax.cond(jnp.any(wrong), careful, quick)


def on_gpu(tensors: Sequence[Any]) -> Any:
    """Packed summaries of float32 arrays or narrower ones, one row a tensor."""
    # On several, each measures its part inside a program for all, where it was not tried.
    if jax.device_count() > 1 or not jax_pallas.is_available():
        return _on_gpu_by_rows(tensors)
    return large_by_kernel(tensors, jax_pallas.whole_chunks)


def large_by_kernel(tensors: Sequence[Any], whole_chunks: Callable[[Sequence[Any]], Any]) -> Any:
    """The same, where a kernel takes the whole chunks of large tensors, and rows the rest."""
    large = [i for i, x in enumerate(tensors) if x.size >= GPU_LARGE]
    if not large:
        return _on_gpu_by_rows(tensors)
    flat = [x.reshape(-1) for x in tensors]
    rest = {i: x for i, x in enumerate(flat) if x.size < GPU_LARGE}
    for i in large:
        if flat[i].size % jax_pallas.CHUNK:
            rest[i] = flat[i][flat[i].size // jax_pallas.CHUNK * jax_pallas.CHUNK :]
    chunks = jnp.concatenate([_nothing()[None, 1:], whole_chunks([flat[i] for i in large])])
    parts = _nothing()[None]
    if rest:
        parts = jnp.concatenate([parts, _on_gpu_by_rows(list(rest.values()))])
    a = chunks[_places(large, len(tensors))]
    b = parts[_places(list(rest), len(tensors))]
    sizes = np.array([x.size for x in tensors], np.float64)
    sums = a[:, :7] + b[:, 1:8]
    low, high = jnp.minimum(a[:, 7], b[:, 8]), jnp.maximum(a[:, 8], b[:, 9])
    return jnp.concatenate([sizes[:, None], sums, low[:, None], high[:, None]], axis=1)


def _nothing() -> Any:
    return jnp.asarray(IDENTITY)


def _places(chosen: Sequence[int], count: int) -> Any:
    """For each tensor the place of its row after that of nothing, or that one."""
    place = {i: 1 + at for at, i in enumerate(chosen)}
    return np.array([place.get(i, 0) for i in range(count)])


def _on_gpu_by_rows(tensors: Sequence[Any]) -> Any:
    rows = Rows.of([x.size for x in tensors], GPU_WIDTH, GPU_LARGE)
    return _exact(rows, _matrices(rows, tensors, np.float32(np.nan)))


def _matrices(rows: Rows, tensors: Sequence[Any], padding: Any) -> list[Matrix]:
    """The rows of each large tensor and, last, of all pieces."""
    flat = [x.reshape(-1) for x in tensors]
    found = [Matrix(flat[i][: rows.head(i)].reshape(-1, rows.width), None) for i in rows.alone]
    if rows.pieces:
        padded = []
        for piece in rows.pieces:
            x = flat[piece.tensor][piece.start :].astype(jnp.float32)
            # One by one: padded zeros in between would take longer to compile.
            around = [(0, rows.padding(piece), 0)]
            padded.append(lax.pad(x, padding, around) if rows.padding(piece) else x)
        # Else XLA makes it anew in every reduction, which takes long to compile.
        together = lax.optimization_barrier(jnp.concatenate(padded)).reshape(-1, rows.width)
        is_padded = any(rows.padding(piece) for piece in rows.pieces)
        found.append(Matrix(together, rows.lengths if is_padded else None))
    return found


def _padded_with_nan(matrix: Matrix) -> Matrix:
    if matrix.lengths is None:
        return matrix
    return matrix._replace(values=jnp.where(_within(matrix), matrix.values, np.float32(np.nan)))


def _brought_together(rows: Rows, tables: Sequence[Table]) -> Table:
    """The tensors' statistics from those of their rows, in float64."""
    every = Table(*(jnp.concatenate(column, axis=-1) for column in zip(*tables, strict=True)))
    start, parts = 0, []
    for neighbours, each in rows.blocks:
        block = slice(start, start + neighbours * each)
        start += neighbours * each
        parts.append(
            Table(
                _cut(every.sums, block, each).astype(jnp.float64).sum(-1),
                _cut(every.low, block, each).astype(jnp.float64).min(-1),
                _cut(every.high, block, each).astype(jnp.float64).max(-1),
            )
        )
    both = Table(*(jnp.concatenate(column, axis=-1) for column in zip(*parts, strict=True)))
    first = Table(*(column[..., np.array(rows.firsts)] for column in both))
    if not rows.rests:
        return first
    large, places = np.array(list(rows.rests)), np.array(list(rows.rests.values()))
    return Table(
        first.sums.at[..., large].add(both.sums[..., places]),
        first.low.at[large].min(both.low[places]),
        first.high.at[large].max(both.high[places]),
    )


def _cut(column: Any, block: slice, each: int) -> Any:
    part = column[..., block]
    return part.reshape(*part.shape[:-1], -1, each)


def _packed(sizes: Any, columns: Sequence[Any], table: Table) -> Any:
    """Ten columns, in the order of `gradwatch.summary.FIELDS`."""
    return jnp.stack([jnp.asarray(sizes), *columns, table.low, table.high], axis=1)


def _quick(matrix: Matrix) -> Table:
    """The statistics of whole rows of finite numbers that are not all alike."""
    x = matrix.values.astype(jnp.float32)
    operands = (_nonzero_folded(x), x, lax.abs(x), x * x)
    sums = jnp.stack([_add(each).astype(jnp.float64) for each in operands])
    return Table(sums, *_bounds(matrix, x, x))


def _centred(matrix: Matrix) -> Table:
    """The statistics of rows of finite numbers, by way of differences from about their means."""
    x = matrix.values.astype(jnp.float32)
    lengths = np.float32(x.shape[1])
    if matrix.lengths is not None:
        lengths = matrix.lengths.astype(np.float32)
    low, high = _bounds(matrix, x, x)
    middle = _middle(_add(x) / lengths, high - low)
    difference = x - middle[:, None]
    if matrix.lengths is not None:
        difference = jnp.where(_within(matrix), difference, np.float32(0))
    operands = (_nonzero_folded(x), lax.abs(x), difference, difference * difference)
    nonzero, magnitude, rest, squares = (_add(each).astype(jnp.float64) for each in operands)
    middle = middle.astype(jnp.float64)
    whole = middle * lengths.astype(np.float64)
    sums = jnp.stack([nonzero, whole + rest, magnitude, squares + middle * (whole + 2.0 * rest)])
    return Table(sums, low, high)


def _exact(rows: Rows, matrices: list[Matrix]) -> Any:
    """The packed summaries from statistics that hold whatever the elements are.

    Padding must be NaN, which a summary sets aside; it is then uncounted.
    """
    tables = []
    for matrix in matrices:
        counts, sums, low, high = _all_at_once(matrix.values)
        if matrix.lengths is not None:
            padding = np.zeros(counts.shape, np.int32)
            padding[0] = rows.width - matrix.lengths
            counts = counts - padding
        both = jnp.concatenate([counts.astype(jnp.float64), sums])
        tables.append(Table(both, low, high))
    table = _brought_together(rows, tables)
    return _packed(np.array(rows.sizes, np.float64), tuple(table.sums), table)


def _all_at_once(x: Any) -> tuple[Any, Any, Any, Any]:
    """Of each row: counts (NaN, +Inf, -Inf, zero), sums, minimum and maximum."""
    x = x.astype(jnp.float32)
    finite = lax.abs(x) < np.float32(np.inf)
    kept = jnp.where(finite, x, np.float32(0)).astype(jnp.float64)
    infinite = [(x == np.float32(sign * np.inf)).astype(jnp.int32) for sign in (1, -1)]
    # Two counts share an integer, for want of registers.
    operands = (
        (x != x).astype(jnp.int32) + (infinite[0] << 16),
        infinite[1] + ((1 - _nonzero(x)) << 16),
        kept,
        jnp.abs(kept),
        kept * kept,
        jnp.where(finite, kept, np.inf),
        jnp.where(finite, kept, -np.inf),
    )
    merge = (*[lax.add] * 5, lax.min, lax.max)
    first, second, total, magnitude, squares, low, high = lax.reduce(
        operands,
        (np.int32(0), np.int32(0), 0.0, 0.0, 0.0, np.inf, -np.inf),
        lambda a, b: tuple(how(*pair) for how, *pair in zip(merge, a, b, strict=True)),
        (1,),
    )
    counts = (first & 0xFFFF, first >> 16, second & 0xFFFF, second >> 16)
    return jnp.stack(counts), jnp.stack([total, magnitude, squares]), low, high


def _middle(mean: Any, spread: Any) -> Any:
    """The mean; where the numbers are not all close to it, to 9 bits only.

    Differences from that are exact where the numbers are small and whole.
    """
    bits = lax.bitcast_convert_type(mean, jnp.int32) & np.int32(-(1 << 15))
    rounded = lax.bitcast_convert_type(bits, jnp.float32)
    return jnp.where(spread > lax.abs(mean) * np.float32(1 / 16), rounded, mean)


def _add(x: Any) -> Any:
    return lax.reduce(x, np.zeros((), x.dtype), lax.add, (1,))


def _nonzero_folded(x: Any) -> Any:
    """How many elements of each row are not zero, in some columns that are still to be added.

    A row's sixteen parts are added up element by element, which XLA fuses with its input: no
    copy of x is made.
    """
    part = x.shape[1] // 16
    # Cut first, then tested: the other way around all tests would be stored.
    parts = [_nonzero(x[:, i * part : (i + 1) * part]) for i in range(16)]
    while len(parts) > 1:
        parts = [lax.add(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0].astype(jnp.float32)


def _bounds(matrix: Matrix, low: Any, high: Any) -> tuple[Any, Any]:
    if matrix.lengths is not None:
        within = _within(matrix)
        low = jnp.where(within, low, np.float32(np.inf))
        high = jnp.where(within, high, np.float32(-np.inf))
    return (
        lax.reduce(low, np.float32(np.inf), lax.min, (1,)),
        lax.reduce(high, np.float32(-np.inf), lax.max, (1,)),
    )


def _within(matrix: Matrix) -> Any:
    column = lax.broadcasted_iota(jnp.int32, matrix.values.shape, 1)
    return column < matrix.lengths[:, None]


def _nonzero(x: Any) -> Any:
    # By the bits, since XLA takes a denormal for 0 in a comparison; and by their sum's
    # carry, since its compiler turns a test of the bits back into such a comparison.
    bits = lax.bitcast_convert_type(x, jnp.int32)
    magnitude = np.int32(FLOAT32_BITS.magnitude)
    return lax.shift_right_logical((bits & magnitude) + magnitude, np.int32(31))
