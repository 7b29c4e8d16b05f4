"""Summaries of JAX arrays that lie on one device, or of what one device has of them.

Sums run in float64, also where the user has not enabled x64: at 2^24 elements
float32 counters stop counting, and 1e38 squared does not fit a float32. The
switch is local to these functions and leaves the user's own arrays alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwatch.core import BINS_A_SIDE, CELLS, FIELDS, IDENTITY, NONFINITE, ZERO
from gradwatch.measure.jax_rows import CPU_LARGE, on_cpu, on_gpu
from gradwatch.measure.layout import FLOAT32_BITS, FLOAT64_BITS, FloatBits


def summarize(tensors: Sequence[Any]) -> Any:
    """Packed summaries, one row a tensor; None counts as a tensor without elements."""
    with jax.enable_x64(True):
        if not tensors:
            return jnp.zeros((0, len(FIELDS)), jnp.float64)
        present = [i for i, x in enumerate(tensors) if x is not None and x.size]
        wide = {i: _widen(tensors[i]) for i in present}
        floats = [i for i in present if wide[i].dtype == jnp.float32]
        others = [i for i in present if wide[i].dtype == jnp.float64]
        tables = [jnp.asarray(IDENTITY)[None]]
        if floats:
            tables.append(_summarize_floats([tensors[i] for i in floats]))
        tables += [_summary(wide[i])[None] for i in others]
        place = {i: 1 + k for k, i in enumerate(floats + others)}
        if len(present) == len(tensors) and not others:
            return tables[1]
        return jnp.concatenate(tables)[np.array([place.get(i, 0) for i in range(len(tensors))])]


def count_cells(tensors: Sequence[Any], due: Any = True) -> Any:
    """Histogram cells, one row a tensor; all zero where the flag `due` is false."""
    with jax.enable_x64(True):

        def count() -> Any:
            return _count_all(tensors)

        def skip() -> Any:
            return jnp.zeros((len(tensors), CELLS), jnp.int64)

        if not tensors or due is False:
            return skip()
        return count() if due is True else lax.cond(due, count, skip)


def _summarize_floats(tensors: Sequence[Any]) -> Any:
    """Packed summaries of float32 arrays or narrower ones."""
    if jax.default_backend() != "gpu":
        return on_cpu(tensors)
    # The default device is a GPU, but the arrays may be elsewhere.
    return lax.platform_dependent(tensors, default=on_cpu, cuda=on_gpu, rocm=on_gpu)


def _summary(x: Any) -> Any:
    """The summary of one array, float32 or float64."""
    zero = _is_zero(x)
    x = x.astype(jnp.float64)
    finite = jnp.abs(x) < jnp.inf
    kept = jnp.where(finite, x, 0.0)
    columns = (
        x != x,
        x == jnp.inf,
        x == -jnp.inf,
        zero,
        kept,
        jnp.abs(kept),
        jnp.square(kept),
        jnp.where(finite, x, jnp.inf),
        jnp.where(finite, x, -jnp.inf),
    )
    # One reduction for all of them, so that XLA reads x once: nine separate ones took
    # four times as long on a CPU.
    row = lax.reduce(
        tuple(column.astype(jnp.float64) for column in columns),
        tuple(IDENTITY[1:]),
        lambda a, b: (
            *map(jnp.add, a[:7], b[:7]),
            jnp.minimum(a[7], b[7]),
            jnp.maximum(a[8], b[8]),
        ),
        tuple(range(x.ndim)),
    )
    return jnp.stack([jnp.float64(x.size), *row])


def _count_all(tensors: Sequence[Any]) -> Any:
    rows = dict.fromkeys(range(len(tensors)), jnp.zeros((CELLS,), jnp.int64))
    cells = {i: _cell(x) for i, x in enumerate(tensors) if x is not None and x.size}
    # Small ones in one scatter, each into a row of its own: a scatter takes long to compile.
    small = [i for i, cell in cells.items() if cell.size < CPU_LARGE]
    if small:
        shifted = [cells[i] + np.int32(k * CELLS) for k, i in enumerate(small)]
        counts = _scatter(jnp.concatenate(shifted), len(small) * CELLS)
        rows.update(zip(small, counts.reshape(-1, CELLS), strict=True))
    rows.update({i: _scatter(cells[i], CELLS) for i in cells.keys() - set(small)})
    return jnp.stack([rows[i] for i in range(len(tensors))])


def _scatter(cells: Any, length: int) -> Any:
    if jax.default_backend() != "gpu":
        return _scatter_directly(cells, length)
    return lax.platform_dependent(
        cells,
        default=lambda cells: _scatter_directly(cells, length),
        cuda=lambda cells: scatter_into_copies(cells, length),
        rocm=lambda cells: scatter_into_copies(cells, length),
    )


def _scatter_directly(cells: Any, length: int) -> Any:
    return jnp.zeros((length,), jnp.int64).at[cells].add(1, mode="promise_in_bounds")


def scatter_into_copies(cells: Any, length: int) -> Any:
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


def _cell(x: Any) -> Any:
    """The number of the cell that each element belongs to."""
    x = _widen(x).reshape(-1)
    bits, form = _bits(x)
    magnitude = bits & form.magnitude
    place = jnp.clip((magnitude >> form.shift) - form.lowest, -1, BINS_A_SIDE)
    cell = jnp.where(bits < 0, ZERO - 2 - place, ZERO + 2 + place)
    cell = jnp.where(magnitude == 0, ZERO, cell)
    return jnp.where(magnitude >= form.infinity, NONFINITE, cell).astype(jnp.int32)


def _widen(x: Any) -> Any:
    """float32 for the narrower floats, which is exact; float64 for whole numbers."""
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError(f"Complex tensors cannot be summarised. Received: dtype={x.dtype}")
    if jnp.issubdtype(x.dtype, jnp.floating):
        return x if x.dtype == jnp.float64 else x.astype(jnp.float32)
    return x.astype(jnp.float64)


def _is_zero(x: Any) -> Any:
    # By the bits, since XLA takes a denormal for 0 in a comparison; and by their sum's
    # carry, since its compiler turns a test of the bits back into such a comparison.
    bits, form = _bits(x)
    carry = (bits & form.magnitude) + form.magnitude
    return carry >= 0


def _bits(x: Any) -> tuple[Any, FloatBits]:
    form = FLOAT64_BITS if x.dtype == jnp.float64 else FLOAT32_BITS
    return lax.bitcast_convert_type(x, jnp.dtype(form.integer)), form
