"""Histogram cells of JAX arrays.

XLA takes some 30 ms to compile a loop or a scatter, so arrays are counted together: laid out in
rows, with counters of its own for each array. It is a copy, but only where histograms are due.

A scatter has arrays of its own, several times as large as what it counts. On a CPU the rows are
counted in stretches: a compiled step allocates the memory of all its branches, also of those that
it does not take, and when that is much, each step gets it from the system and has it cleared.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from gradwatch.compat import jax_names
from gradwatch.core import BINS_A_SIDE, CELLS, NONFINITE, ZERO, Tensor
from gradwatch.measure.kernels.jax_bits import bits_of, widen
from gradwatch.measure.kernels.jax_layout import LaidOut, heads, laid_out, placed
from gradwatch.measure.kernels.row_layout import MAX_ELEMENTS, Matrix, RowLayout

_WIDTH = 512
_STRETCH = 256
"""The rows that are counted at once, on a CPU."""
_GPU_LARGE = 1 << 16


@jax_names.in_wide_types
def count_cells(tensors: Sequence[Tensor | None], due: Any = True) -> Tensor:
    """Histogram cells, one row a tensor; all zero where the flag `due` is false."""
    return count_if_due(tensors, due, LaidOut.of_none(), {})


def count_if_due(
    tensors: Sequence[Tensor | None], due: Any, laid: LaidOut, places: Mapping[int, int]
) -> Tensor:
    """The same, where some tensors are laid out already: their `places` are in `laid`."""

    def count() -> Tensor:
        return _count_all(tensors, laid, places)

    def skip() -> Tensor:
        return jnp.zeros((len(tensors), CELLS), jnp.int64)

    if not tensors or due is False:
        return skip()
    return count() if due is True else lax.cond(due, count, skip)


def _count_all(
    tensors: Sequence[Tensor | None], laid: LaidOut, places: Mapping[int, int]
) -> Tensor:
    given = {i: x for i, x in enumerate(tensors) if x is not None and x.size}
    wide = {i: widen(x) for i, x in given.items() if i not in places}
    floats = [i for i, x in wide.items() if x.dtype == jnp.float32]
    others = [i for i, x in wide.items() if x.dtype == jnp.float64]
    tables, ready = _count_laid_out(laid, {place: i for i, place in places.items()})
    if floats:
        tables.append(_count_floats([tensors[i] for i in floats]))
    tables += [_scatter(_cell(wide[i].reshape(-1)), CELLS)[None] for i in others]
    if not tables:
        return jnp.zeros((len(tensors), CELLS), jnp.int64)
    order = [*ready, *floats, *others]
    return placed(jnp.concatenate(tables), order, len(tensors), np.zeros(CELLS, np.int64))


def _count_laid_out(laid: LaidOut, numbers: Mapping[int, int]) -> tuple[list[Tensor], list[int]]:
    """Cells of the arrays at some places in `laid`, from the rows there; and their numbers."""
    layout, tables = laid.layout, []
    order: list[int] = []
    for chunk, matrix in zip(layout.chunks, laid.chunks, strict=True):
        ends = np.cumsum([layout.height(piece) for piece in chunk])
        chosen = [k for k, piece in enumerate(chunk) if piece.tensor in numbers]
        if chosen:
            heights = [layout.height(chunk[k]) for k in chosen]
            pairs = zip(ends[chosen], heights, strict=True)
            rows = np.concatenate([np.arange(end - height, end) for end, height in pairs])
            values = matrix.values.at[rows].get(mode="promise_in_bounds", unique_indices=True)
            counts = _count_rows(Matrix(values, None), heights)
            tables.append(_without(counts, [layout.padding(chunk[k]) for k in chosen]))
            order += [numbers[chunk[k].tensor] for k in chosen]
    return tables, order


def _without(counts: Tensor, padding: Sequence[int]) -> Tensor:
    """Cells without the zeros of the padding, from so many for each row."""
    is_zero = np.arange(CELLS) == ZERO
    return counts - jnp.where(is_zero, np.array(padding, np.int64)[:, None], 0)


def _count_floats(tensors: Sequence[Tensor]) -> Tensor:
    """Cells of float32 arrays or narrower ones, one row a tensor."""
    large = MAX_ELEMENTS if jax.default_backend() != "gpu" else _GPU_LARGE
    layout = RowLayout.of([x.size for x in tensors], _WIDTH, large, [x.dtype for x in tensors])
    tables = [_count_rows(matrix, [len(matrix.values)]) for matrix in heads(layout, tensors)]
    for chunk, matrix in zip(layout.chunks, laid_out(layout, tensors), strict=True):
        tables.append(_count_rows(matrix, [layout.height(piece) for piece in chunk]))
    nothing = np.zeros((1, CELLS), np.int64)
    counts = jnp.concatenate([*tables, nothing])[layout.places].sum(1)
    padding = {piece.tensor: layout.padding(piece) for piece in layout.pieces}
    return _without(counts, [padding.get(i, 0) for i in range(len(tensors))])


def _count_rows(matrix: Matrix, heights: Sequence[int]) -> Tensor:
    """Cells of arrays that have so many rows of a matrix; further rows are not counted."""
    return _count_heights(matrix.values, tuple(heights))


# Compiled apart, as in `jax_rows`.
@partial(jax.jit, static_argnums=1)
def _count_heights(values: Tensor, heights: tuple[int, ...]) -> Tensor:
    first = np.repeat(np.arange(len(heights), dtype=np.int32) * CELLS, heights)
    length = len(heights) * CELLS
    if jax.default_backend() != "gpu" and len(first) > _STRETCH:
        return _count_in_stretches(values, first, length).reshape(-1, CELLS)
    values = values[: len(first)].astype(jnp.float32)
    cells = (_cell(values) + first[:, None]).reshape(-1)
    return _scatter(cells, length).reshape(-1, CELLS)


def _count_in_stretches(values: Tensor, first: NDArray[np.int32], length: int) -> Tensor:
    """The same with little memory: some rows after others."""
    constant, rows = jnp.asarray(first), np.arange(_STRETCH, dtype=np.int32)

    def add(i: Tensor, counts: Tensor) -> Tensor:
        # The last stretch overlaps the one before, so that all have one shape.
        start = jnp.minimum(i * _STRETCH, len(first) - _STRETCH)
        some = lax.dynamic_slice_in_dim(values, start, _STRETCH).astype(jnp.float32)
        cells = _cell(some) + lax.dynamic_slice_in_dim(constant, start, _STRETCH)[:, None]
        is_new = (rows + start >= i * _STRETCH)[:, None]
        return counts.at[jnp.where(is_new, cells, length)].add(1, mode="promise_in_bounds")

    # One more counter, of what the stretch before has counted.
    none = jnp.zeros((length + 1,), jnp.int64)
    stretches = np.int32(-(-len(first) // _STRETCH))
    return lax.fori_loop(np.int32(0), stretches, add, none)[:length]


def _scatter(cells: Tensor, length: int) -> Tensor:
    if jax.default_backend() != "gpu":
        return _scatter_directly(cells, length)
    return lax.platform_dependent(
        cells,
        default=lambda cells: _scatter_directly(cells, length),
        cuda=lambda cells: scatter_into_copies(cells, length),
        rocm=lambda cells: scatter_into_copies(cells, length),
    )


def _scatter_directly(cells: Tensor, length: int) -> Tensor:
    return jnp.zeros((length,), jnp.int64).at[cells].add(1, mode="promise_in_bounds")


def scatter_into_copies(cells: Tensor, length: int) -> Tensor:
    """How often each number below `length` occurs, on a GPU.

    There, threads that add to one place wait for each other, and a tensor's elements crowd in
    a few bins. So each stretch of elements has counters of its own: 16 times as fast.
    """
    copies = max(1, min(4096, cells.size // 2048, (4096 * CELLS) // length))
    whole = cells.size // copies * copies
    counter = lax.broadcasted_iota(jnp.int32, (copies, whole // copies), 0) * np.int32(length)
    places = (cells[:whole].reshape(copies, -1) + counter).reshape(-1)
    counts = jnp.zeros((copies * length,), jnp.int32).at[places].add(1, mode="promise_in_bounds")
    rest = jnp.zeros((length,), jnp.int64).at[cells[whole:]].add(1, mode="promise_in_bounds")
    return counts.reshape(copies, length).sum(0, dtype=jnp.int64) + rest


def _cell(x: Tensor) -> Tensor:
    """The number of the cell of each element of a float32 or float64 array."""
    bits, form = bits_of(x)
    magnitude = bits & form.magnitude
    place = jnp.clip((magnitude >> form.shift) - form.lowest, -1, BINS_A_SIDE)
    cell = jnp.where(bits < 0, ZERO - 2 - place, ZERO + 2 + place)
    cell = jnp.where(magnitude == 0, ZERO, cell)
    return jnp.where(magnitude >= form.infinity, NONFINITE, cell).astype(jnp.int32)
