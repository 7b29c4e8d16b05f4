"""Summaries of many JAX arrays by the rows that they are cut into.

A CPU and a GPU need different code, measured on both (`benchmarks/kernel_jax.py`):

- On a GPU, sums run in float64. The kernel `jax_pallas` reads large tensors where it is available;
  otherwise, and for small tensors, one reduction of several operands reads each once.
- On a CPU, XLA runs such a reduction element by element, but a plain float32 sum, minimum
  or maximum on all cores and vector units. Several of those are much faster than the single one.
  They are right if all elements are finite, their squares fit a float32 and they are not nearly
  equal. The results show where this fails, and exact reductions then replace them.
  Small tensors often have nearly equal elements, such as scales around 1. So their rows are
  summed as differences from about their mean, which keeps the spread from being rounded away.

What is done to a single matrix is compiled apart (`jax.jit`), which XLA undoes: so it is traced and
lowered once for those of one shape, and not for each layer.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwatch.core import FIELDS, IDENTITY, Tensor
from gradwatch.measure.kernels import jax_pallas
from gradwatch.measure.kernels.jax_bits import nonzero
from gradwatch.measure.kernels.jax_layout import (
    LaidOut,
    heads,
    laid_out,
    merge_rows,
    packed,
    placed,
    table_of,
)
from gradwatch.measure.kernels.jax_program import CHUNK
from gradwatch.measure.kernels.row_layout import Matrix, RowLayout, are_alike

# Sums over a row run in float32 on a CPU: 512 keep its error below 1e-6. A row's counts
# share an int32 on a GPU, so a row there may be no longer than 32767.
CPU_WIDTH, CPU_LARGE = 512, 1 << 16
# Of larger tensors, one block at a time is reduced: it stays in the cache from one sum to the next.
CPU_BLOCK = 1 << 20
GPU_WIDTH, GPU_LARGE = 1024, 1 << 17


def on_cpu(tensors: Sequence[Tensor]) -> Tensor:
    """Packed summaries of float32 arrays or narrower ones, one row a tensor."""
    return summarize_laid_out(lay_out_on_cpu(tensors))


def lay_out_on_cpu(tensors: Sequence[Tensor]) -> LaidOut:
    layout = RowLayout.of(
        [x.size for x in tensors], CPU_WIDTH, CPU_LARGE, [x.dtype for x in tensors]
    )
    # Without the barrier XLA computes gradients and updates again where they are laid out, in
    # one kernel for all of them, which takes long to compile.
    tensors = lax.optimization_barrier(list(tensors))
    return LaidOut(layout, tensors, laid_out(layout, tensors))


def summarize_laid_out(laid: LaidOut) -> Tensor:
    """Packed summaries of arrays that `lay_out_on_cpu` has laid out, one row each."""
    layout, tensors, chunks = laid
    sizes = np.array(layout.sizes, np.float64)
    tables = [_quick_by_blocks(tensors[i], layout.head(i)) for i in layout.alone]
    table = merge_rows(layout, tables + [_centred(chunk) for chunk in chunks])
    nonzeros, total, magnitude, squares = (table[:, k] for k in range(4))
    # Squares below 1.2e-38 are lost: that matters if the sum is this small, unless all elements
    # are zero. Anything that is not finite shows in the sum of magnitudes.
    lost = (squares < sizes * 1.2e-31) & (nonzeros > 0)
    wrong = lost | ~(squares < np.inf) | ~(magnitude < np.inf)
    wrong |= layout.is_alone & are_alike(total, squares, sizes)
    quick = packed(sizes, [np.zeros((len(sizes), 3)), (sizes - nonzeros)[:, None]], table[:, 1:])

    def careful() -> Tensor:
        return exact(layout, heads(layout, tensors) + [_padded_with_nan(chunk) for chunk in chunks])

    return lax.cond(jnp.any(wrong), careful, lambda: quick)


def on_gpu(tensors: Sequence[Tensor]) -> Tensor:
    """Packed summaries of float32 arrays or narrower ones, one row a tensor."""
    # With several devices the kernel would run inside a partitioned program: not tested.
    if jax.device_count() > 1 or not jax_pallas.is_available():
        return by_rows_on_gpu(tensors)
    return large_by_kernel(tensors, jax_pallas.whole_chunks)


def large_by_kernel(
    tensors: Sequence[Tensor], whole_chunks: Callable[[Sequence[Tensor]], Tensor]
) -> Tensor:
    """The same; a kernel measures the whole chunks of large tensors, and rows the rest."""
    large = [i for i, x in enumerate(tensors) if x.size >= GPU_LARGE]
    if not large:
        return by_rows_on_gpu(tensors)
    flat = [x.reshape(-1) for x in tensors]
    rest = {i: x for i, x in enumerate(flat) if x.size < GPU_LARGE}
    for i in large:
        if flat[i].size % CHUNK:
            rest[i] = flat[i][flat[i].size // CHUNK * CHUNK :]
    by_rows = jnp.zeros((0, len(FIELDS)), jnp.float64)
    if rest:
        by_rows = by_rows_on_gpu(list(rest.values()))
    chunks = whole_chunks([flat[i] for i in large])
    a = placed(chunks, large, len(tensors), IDENTITY[1:])
    b = placed(by_rows, list(rest), len(tensors), IDENTITY)
    return joined(a, b, np.array([x.size for x in tensors], np.float64))


def joined(chunks: Tensor, rests: Tensor, sizes: Any) -> Tensor:
    """Packed summaries of tensors from those of their chunks, without the count, and the rest."""
    sums = chunks[:, :7] + rests[:, 1:8]
    low = jnp.minimum(chunks[:, 7], rests[:, 8])
    high = jnp.maximum(chunks[:, 8], rests[:, 9])
    return jnp.concatenate([sizes[:, None], sums, low[:, None], high[:, None]], axis=1)


def by_rows_on_gpu(tensors: Sequence[Tensor]) -> Tensor:
    layout = RowLayout.of([x.size for x in tensors], GPU_WIDTH, GPU_LARGE)
    # Without the barrier XLA computes updates where they are laid out, and for that copies the
    # weights before the step: one more kernel for each of them.
    tensors = [x if x.size >= GPU_LARGE else lax.optimization_barrier(x) for x in tensors]
    floats = [x.astype(jnp.float32) for x in tensors]
    return exact(layout, heads(layout, tensors) + laid_out(layout, floats, np.nan, common=1))


def _padded_with_nan(matrix: Matrix) -> Matrix:
    return matrix._replace(values=jnp.where(within(matrix), matrix.values, np.float32(np.nan)))


@partial(jax.jit, static_argnums=1)
def _quick_by_blocks(tensor: Tensor, head: int) -> Tensor:
    """The statistics of the whole rows of a large tensor, its first elements."""
    x = tensor.reshape(-1)
    blocks = head // CPU_BLOCK
    if blocks <= 1:
        return _quick(x[:head])

    def block(number: Tensor) -> Tensor:
        part = lax.dynamic_slice(x, (number * CPU_BLOCK,), (CPU_BLOCK,))
        # Copied once, rather than sliced again for each reduction.
        return _quick(lax.optimization_barrier(part))

    tables = lax.map(block, np.arange(blocks))
    table = tables.reshape(-1, tables.shape[-1])
    rest = x[blocks * CPU_BLOCK : head]
    return lax.concatenate([table, _quick(rest)], 0) if rest.size else table


def _quick(x: Tensor) -> Tensor:
    """The statistics of rows of finite numbers that are not nearly equal."""
    x = x.reshape(-1, CPU_WIDTH).astype(jnp.float32)
    sums = [_add(each) for each in (_nonzero_folded(x), x, lax.abs(x), x * x)]
    low, high = _bounds(x)
    return table_of(*sums, -low, high)


def _centred(matrix: Matrix) -> Tensor:
    """The statistics of rows of finite numbers, from differences from about their means."""
    x = matrix.values
    lengths = matrix.lengths.astype(np.float32)
    # Padding is 0: replace it by a number of the row.
    is_padded = bool((matrix.lengths < x.shape[1]).any())
    low, high = _bounds(jnp.where(within(matrix), x, x[:, :1]) if is_padded else x)
    middle = _middle(_add(x) / lengths, high - low)
    difference = x - middle[:, None]
    if is_padded:
        difference = jnp.where(within(matrix), difference, np.float32(0))
    operands = (_nonzero_folded(x), lax.abs(x), difference, difference * difference)
    nonzero, magnitude, rest, squares = (_add(each).astype(jnp.float64) for each in operands)
    middle = middle.astype(jnp.float64)
    whole = middle * lengths.astype(np.float64)
    squares += middle * (whole + 2.0 * rest)
    return table_of(nonzero, whole + rest, magnitude, squares, -low, high)


def exact(layout: RowLayout, matrices: list[Matrix]) -> Tensor:
    """Packed summaries of any elements; padding must be NaN, and is not counted."""
    table = merge_rows(layout, [exact_rows(matrix.values) for matrix in matrices])
    padding = np.zeros(table.shape)
    for piece in layout.pieces:
        padding[piece.tensor, 0] = layout.padding(piece)
    return packed(np.array(layout.sizes, np.float64), [], table - padding)


@jax.jit  # type: ignore[untyped-decorator]
def exact_rows(x: Tensor) -> Tensor:
    """The statistics of rows: counts (NaN, +Inf, -Inf, zero), sums and bounds."""
    x = x.astype(jnp.float32)
    finite = lax.abs(x) < np.float32(np.inf)
    kept = jnp.where(finite, x, np.float32(0)).astype(jnp.float64)
    infinite = [(x == np.float32(sign * np.inf)).astype(jnp.int32) for sign in (1, -1)]
    # Two counts share an integer, to save registers.
    operands = (
        (x != x).astype(jnp.int32) + (infinite[0] << 16),
        infinite[1] + ((1 - nonzero(x)) << 16),
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


def _middle(mean: Tensor, spread: Tensor) -> Tensor:
    """The mean; where the numbers are not all close to it, to 9 bits only.

    Differences from that are exact where the numbers are small and whole.
    """
    bits = lax.bitcast_convert_type(mean, jnp.int32) & np.int32(-(1 << 15))
    rounded = lax.bitcast_convert_type(bits, jnp.float32)
    return jnp.where(spread > lax.abs(mean) * np.float32(1 / 16), rounded, mean)


def _add(x: Tensor) -> Tensor:
    return lax.reduce(x, np.zeros((), x.dtype), lax.add, (1,))


def _nonzero_folded(x: Tensor) -> Tensor:
    """The number of nonzero elements of each row, in some columns that are still to be added.

    The sixteen parts of a row are added elementwise, which XLA fuses with its input: x is not
    copied.
    """
    parts = nonzero(x).reshape(x.shape[0], 16, -1)
    return lax.reduce(parts, np.int32(0), lax.add, (1,)).astype(jnp.float32)


def _bounds(x: Tensor) -> tuple[Tensor, Tensor]:
    return (
        lax.reduce(x, np.float32(np.inf), lax.min, (1,)),
        lax.reduce(x, np.float32(-np.inf), lax.max, (1,)),
    )


def within(matrix: Matrix) -> Tensor:
    column = lax.broadcasted_iota(jnp.int32, matrix.values.shape, 1)
    return column < matrix.lengths[:, None]
