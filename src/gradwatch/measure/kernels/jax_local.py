"""Summaries of JAX arrays on one device, or of the parts that one device has.

Sums run in float64, also where the user has not enabled x64: at 2^24 elements float32 counters
stop counting, and 1e38 squared does not fit a float32. The switch is local to these functions
and does not affect the user's arrays.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gradwatch.compat import jax_names
from gradwatch.core import FIELDS, IDENTITY, Tensor
from gradwatch.measure.kernels.jax_bits import is_zero, widen
from gradwatch.measure.kernels.jax_cells import count_if_due
from gradwatch.measure.kernels.jax_layout import LaidOut, placed
from gradwatch.measure.kernels.jax_rows import (
    lay_out_on_cpu,
    on_cpu,
    on_gpu,
    summarize_laid_out,
)


@jax_names.in_wide_types
def summarize(tensors: Sequence[Tensor | None]) -> Tensor:
    """Packed summaries, one row a tensor; None counts as a tensor without elements."""
    return _summarize(tensors)[0]


@jax_names.in_wide_types
def measure(
    tensors: Sequence[Tensor | None], with_cells: Sequence[int], due: Any
) -> tuple[Tensor, Tensor]:
    """The same, and the histogram cells of some, if the flag `due` is true.

    On a CPU the rows of small tensors are counted as they were laid out for the summaries, which
    saves half of the time to compile.
    """
    table, laid, floats = _summarize(tensors)
    small = {floats[piece.tensor]: piece.tensor for piece in laid.layout.pieces if not piece.start}
    places = {k: small[i] for k, i in enumerate(with_cells) if i in small}
    return table, count_if_due([tensors[i] for i in with_cells], due, laid, places)


def _summarize(tensors: Sequence[Tensor | None]) -> tuple[Tensor, LaidOut, list[int]]:
    """The summaries; and on a CPU the small tensors in rows, by their places in a list."""
    wide = {i: widen(x) for i, x in enumerate(tensors) if x is not None and x.size}
    floats = [i for i, x in wide.items() if x.dtype == jnp.float32]
    others = [i for i, x in wide.items() if x.dtype == jnp.float64]
    tables = [_summary(wide[i])[None] for i in others]
    laid = LaidOut.of_none()
    if floats:
        found, laid = _summarize_floats([tensors[i] for i in floats])
        tables.insert(0, found)
    table = jnp.concatenate(tables) if tables else jnp.zeros((0, len(FIELDS)), jnp.float64)
    return placed(table, floats + others, len(tensors), IDENTITY), laid, floats


def _summarize_floats(tensors: Sequence[Tensor]) -> tuple[Tensor, LaidOut]:
    """Packed summaries of float32 arrays or narrower ones."""
    if jax.default_backend() != "gpu":
        laid = lay_out_on_cpu(tensors)
        return summarize_laid_out(laid), laid
    # The default device is a GPU, but the arrays may be elsewhere.
    table = lax.platform_dependent(tensors, default=on_cpu, cuda=on_gpu, rocm=on_gpu)
    return table, LaidOut.of_none()


def _summary(x: Tensor) -> Tensor:
    """The summary of one array, float32 or float64."""
    zero = is_zero(x)
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
