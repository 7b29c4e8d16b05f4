"""Summaries of JAX arrays, inside or outside `jax.jit`.

Sums run in float64, also where the user has not enabled x64: at 2^24 elements
float32 counters stop counting, and 1e38 squared does not fit a float32. The
switch is local to these functions and leaves the user's own arrays alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gradwatch.histogram import BINS_A_SIDE, CELLS, NONFINITE, ZERO
from gradwatch.measure.layout import FLOAT32_BITS, FLOAT64_BITS, FloatBits
from gradwatch.summary import FIELDS, IDENTITY


def summarize(tensors: Sequence[Any]) -> Any:
    """Packed summaries, one row a tensor; None counts as a tensor without elements."""
    with jax.enable_x64(True):
        if not tensors:
            return jnp.zeros((0, len(FIELDS)), jnp.float64)
        return jnp.stack([_summary(x) for x in tensors])


def count_cells(tensors: Sequence[Any], due: Any = True) -> Any:
    """Histogram cells, one row a tensor; all zero where the flag `due` is false."""
    with jax.enable_x64(True):

        def count() -> Any:
            return jnp.stack([_cells(x) for x in tensors])

        def skip() -> Any:
            return jnp.zeros((len(tensors), CELLS), jnp.int64)

        if not tensors or due is False:
            return skip()
        return count() if due is True else lax.cond(due, count, skip)


def _summary(x: Any) -> Any:
    if x is None or x.size == 0:
        return jnp.asarray(IDENTITY)
    zero = _is_zero(x := _widen(x))
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


def _cells(x: Any) -> Any:
    cells = jnp.zeros((CELLS,), jnp.int64)
    if x is None or x.size == 0:
        return cells
    x = _widen(x).reshape(-1)
    bits, form = _bits(x)
    magnitude = bits & form.magnitude
    place = jnp.clip((magnitude >> form.shift) - form.lowest, -1, BINS_A_SIDE)
    cell = jnp.where(bits < 0, ZERO - 2 - place, ZERO + 2 + place)
    cell = jnp.where(magnitude == 0, ZERO, cell)
    cell = jnp.where(magnitude >= form.infinity, NONFINITE, cell)
    return cells.at[cell.astype(jnp.int32)].add(1)


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
