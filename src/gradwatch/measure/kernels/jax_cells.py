"""Histogram cells of JAX arrays."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwatch.core import BINS_A_SIDE, CELLS, NONFINITE, ZERO, Tensor
from gradwatch.measure.kernels.jax_bits import bits_of, widen

_SMALL = 1 << 16


def count_cells(tensors: Sequence[Tensor | None], due: Any = True) -> Tensor:
    """Histogram cells, one row a tensor; all zero where the flag `due` is false."""
    with jax.enable_x64(True):

        def count() -> Tensor:
            return _count_all(tensors)

        def skip() -> Tensor:
            return jnp.zeros((len(tensors), CELLS), jnp.int64)

        if not tensors or due is False:
            return skip()
        return count() if due is True else lax.cond(due, count, skip)


def _count_all(tensors: Sequence[Tensor | None]) -> Tensor:
    rows = dict.fromkeys(range(len(tensors)), jnp.zeros((CELLS,), jnp.int64))
    cells = {i: _cell(x) for i, x in enumerate(tensors) if x is not None and x.size}
    # Small ones in one scatter, each into a row of its own: a scatter takes long to compile.
    small = [i for i, cell in cells.items() if cell.size < _SMALL]
    if small:
        shifted = [cells[i] + np.int32(k * CELLS) for k, i in enumerate(small)]
        counts = _scatter(jnp.concatenate(shifted), len(small) * CELLS)
        rows.update(zip(small, counts.reshape(-1, CELLS), strict=True))
    rows.update({i: _scatter(cells[i], CELLS) for i in cells.keys() - set(small)})
    return jnp.stack([rows[i] for i in range(len(tensors))])


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
    """The number of the cell that each element belongs to."""
    x = widen(x).reshape(-1)
    bits, form = bits_of(x)
    magnitude = bits & form.magnitude
    place = jnp.clip((magnitude >> form.shift) - form.lowest, -1, BINS_A_SIDE)
    cell = jnp.where(bits < 0, ZERO - 2 - place, ZERO + 2 + place)
    cell = jnp.where(magnitude == 0, ZERO, cell)
    return jnp.where(magnitude >= form.infinity, NONFINITE, cell).astype(jnp.int32)
