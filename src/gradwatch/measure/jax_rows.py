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
from gradwatch.core import IDENTITY
from gradwatch.measure.jax_layout import (
    brought_together,
    heads,
    laid_out,
    laid_out_with_nan,
    packed,
    table_of,
)
from gradwatch.measure.layout import FLOAT32_BITS
from gradwatch.measure.rows import Matrix, Rows, are_alike

# Sums over a row run in float32 on a CPU: 512 keep its error below 1e-6. A row's counts
# share an int32 on a GPU, so a row there may be no longer than 32767.
CPU_WIDTH, CPU_LARGE = 512, 1 << 16
# Of larger tensors, one block at a time is reduced: it stays in the cache from one sum to the next.
CPU_BLOCK = 1 << 20
GPU_WIDTH, GPU_LARGE = 1024, 1 << 17


def on_cpu(tensors: Sequence[Any]) -> Any:
    """Packed summaries of float32 arrays or narrower ones, one row a tensor."""
    sizes = np.array([x.size for x in tensors], np.float64)
    rows = Rows.of([x.size for x in tensors], CPU_WIDTH, CPU_LARGE, [x.dtype for x in tensors])
    # Else XLA computes gradients and updates once more where they are laid out together, in
    # one kernel of them all, which takes long to compile.
    tensors = lax.optimization_barrier(list(tensors))
    chunks = laid_out(rows, tensors)
    tables = [_quick_by_blocks(tensors[i], rows.head(i)) for i in rows.alone]
    table = brought_together(rows, tables + [_centred(chunk) for chunk in chunks])
    nonzero, total, magnitude, squares = (table[:, k] for k in range(4))
    # Squares below 1.2e-38 are lost: too many of them, if this is all that there is. Not
    # if all is zero; and anything that is not finite shows in the sum of magnitudes.
    lost = (squares < sizes * 1.2e-31) & (nonzero > 0)
    wrong = lost | ~(squares < np.inf) | ~(magnitude < np.inf)
    wrong |= rows.is_alone & are_alike(total, squares, sizes)
    quick = packed(sizes, [np.zeros((len(sizes), 3)), (sizes - nonzero)[:, None]], table[:, 1:])

    def careful() -> Any:
        return _exact(rows, heads(rows, tensors) + [_padded_with_nan(chunk) for chunk in chunks])

    return lax.cond(jnp.any(wrong), careful, lambda: quick)


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
    return _exact(rows, heads(rows, tensors) + laid_out_with_nan(rows, tensors))


def _padded_with_nan(matrix: Matrix) -> Matrix:
    return matrix._replace(values=jnp.where(_within(matrix), matrix.values, np.float32(np.nan)))


def _quick_by_blocks(tensor: Any, head: int) -> Any:
    """The statistics of the whole rows of a large tensor, its first elements."""
    x = tensor.reshape(-1)
    blocks = head // CPU_BLOCK
    if blocks <= 1:
        return _quick(x[:head])

    def block(number: Any) -> Any:
        part = lax.dynamic_slice(x, (number * CPU_BLOCK,), (CPU_BLOCK,))
        # Copied once, rather than cut out again for each of the reductions.
        return _quick(lax.optimization_barrier(part))

    tables = lax.map(block, np.arange(blocks))
    table = tables.reshape(-1, tables.shape[-1])
    rest = x[blocks * CPU_BLOCK : head]
    return lax.concatenate([table, _quick(rest)], 0) if rest.size else table


def _quick(x: Any) -> Any:
    """The statistics of rows of finite numbers that are not all alike."""
    x = x.reshape(-1, CPU_WIDTH).astype(jnp.float32)
    sums = [_add(each) for each in (_nonzero_folded(x), x, lax.abs(x), x * x)]
    low, high = _bounds(x)
    return table_of(*sums, -low, high)


def _centred(matrix: Matrix) -> Any:
    """The statistics of rows of finite numbers, by way of differences from about their means."""
    x = matrix.values
    lengths = matrix.lengths.astype(np.float32)
    # In place of padding, which is 0, a number that the row has.
    is_padded = bool((matrix.lengths < x.shape[1]).any())
    low, high = _bounds(jnp.where(_within(matrix), x, x[:, :1]) if is_padded else x)
    middle = _middle(_add(x) / lengths, high - low)
    difference = x - middle[:, None]
    if is_padded:
        difference = jnp.where(_within(matrix), difference, np.float32(0))
    operands = (_nonzero_folded(x), lax.abs(x), difference, difference * difference)
    nonzero, magnitude, rest, squares = (_add(each).astype(jnp.float64) for each in operands)
    middle = middle.astype(jnp.float64)
    whole = middle * lengths.astype(np.float64)
    squares += middle * (whole + 2.0 * rest)
    return table_of(nonzero, whole + rest, magnitude, squares, -low, high)


def _exact(rows: Rows, matrices: list[Matrix]) -> Any:
    """The packed summaries from statistics that hold whatever the elements are.

    Padding must be NaN, which a summary sets aside; it is then uncounted.
    """
    table = brought_together(rows, [_all_at_once(matrix.values) for matrix in matrices])
    padding = np.zeros(table.shape)
    for piece in rows.pieces:
        padding[piece.tensor, 0] = rows.padding(piece)
    return packed(np.array(rows.sizes, np.float64), [], table - padding)


def _all_at_once(x: Any) -> Any:
    """The statistics of rows: counts (NaN, +Inf, -Inf, zero), sums and bounds."""
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
        jnp.where(finite, -kept, -np.inf),
        jnp.where(finite, kept, -np.inf),
    )
    merge = (*[lax.add] * 5, lax.max, lax.max)
    first, second, *others = lax.reduce(
        operands,
        (np.int32(0), np.int32(0), 0.0, 0.0, 0.0, -np.inf, -np.inf),
        lambda a, b: tuple(how(*pair) for how, *pair in zip(merge, a, b, strict=True)),
        (1,),
    )
    shared = jnp.stack([first, second], axis=1)[:, :, None]
    counts = (shared >> np.array([0, 16], np.int32)) & np.int32(0xFFFF)
    return table_of(counts.reshape(-1, 4), *others)


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
    parts = _nonzero(x).reshape(x.shape[0], 16, -1)
    return lax.reduce(parts, np.int32(0), lax.add, (1,)).astype(jnp.float32)


def _bounds(x: Any) -> tuple[Any, Any]:
    return (
        lax.reduce(x, np.float32(np.inf), lax.min, (1,)),
        lax.reduce(x, np.float32(-np.inf), lax.max, (1,)),
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
