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
import numpy as np
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
    x = _widen(x)
    # Each reduction is written from x alone: XLA then fuses it into one read of
    # x, where a shared mask or masked copy would be materialised.
    counter = jnp.int32 if x.size < 2**31 else jnp.int64
    row = [
        x.size,
        jnp.sum(x != x, dtype=counter),
        jnp.sum(x == jnp.inf, dtype=counter),
        jnp.sum(x == -jnp.inf, dtype=counter),
        jnp.sum(_is_zero(x), dtype=counter),
        jnp.sum(_finite_or(x, 0), dtype=jnp.float64),
        jnp.sum(jnp.abs(_finite_or(x, 0)), dtype=jnp.float64),
        jnp.sum(jnp.square(_finite_or(x, 0).astype(jnp.float64))),
        jnp.min(_finite_or(x, jnp.inf)),
        jnp.max(_finite_or(x, -jnp.inf)),
    ]
    return jnp.stack([jnp.asarray(value, jnp.float64) for value in row])


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


def _finite_or(x: Any, other: float) -> Any:
    return jnp.where(jnp.abs(x) < jnp.inf, x, np.asarray(other, x.dtype))


def _is_zero(x: Any) -> Any:
    # By the bits: XLA takes a denormal for 0 in a comparison.
    bits, form = _bits(x)
    return (bits & form.magnitude) == 0


def _bits(x: Any) -> tuple[Any, FloatBits]:
    form = FLOAT64_BITS if x.dtype == jnp.float64 else FLOAT32_BITS
    return lax.bitcast_convert_type(x, jnp.dtype(form.integer)), form
