"""JAX arrays in a compiled step, which are measured on the host.

The step returns its tensors as they are. To compile that takes hardly longer than to compile the
step, where it takes twice as long again to compile what measures the tensors of a small model.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from gradwatch.core import Tensor
from gradwatch.measure import jax as own
from gradwatch.measure.jax import (
    NAME,
    aside,
    bias_correction,
    constant,
    expert_load,
    fetch,
    fetch_number,
    is_traced,
    measure_one,
    residual_ratio,
    snapshot,
    use_copies,
)
from gradwatch.measure.kernels.jax_returned import HostCells, HostRows, Later

__all__ = [
    "NAME",
    "aside",
    "below",
    "bias_correction",
    "constant",
    "copy",
    "cosine",
    "dead_units",
    "difference",
    "expert_load",
    "fetch",
    "fetch_number",
    "is_traced",
    "measure",
    "measure_one",
    "normalized",
    "outside",
    "residual_ratio",
    "snapshot",
    "use_copies",
]


def measure(
    tensors: Sequence[Tensor | Later | None], with_cells: Sequence[int] = (), due: Any = True
) -> tuple[HostRows, HostCells]:
    return HostRows.of(tensors), HostCells(tuple(with_cells))


def _of_values(compute: Callable[..., Any]) -> Callable[..., Any]:
    """The same, also of tensors that would be computed on the host."""

    @functools.wraps(compute)
    def computed(*given: Any) -> Any:
        return compute(*(x.value() if isinstance(x, Later) else x for x in given))

    return computed


copy, below = _of_values(own.copy), _of_values(own.below)
cosine, normalized = _of_values(own.cosine), _of_values(own.normalized)


def difference(after: Tensor, before: Tensor) -> Later:
    return Later(_difference, (after, before))


def dead_units(outputs: Tensor, axis: int) -> Later | None:
    return Later(_dead_units, (outputs,), (axis % outputs.ndim,)) if outputs.ndim > 1 else None


def outside(x: Tensor, low: float, high: float) -> Later:
    return Later(_outside, (x,), (low, high))


def _difference(after: Tensor, before: Tensor) -> Tensor:
    return _wide(after) - _wide(before)


def _dead_units(outputs: Tensor, axis: int) -> Tensor:
    others = tuple(a for a in range(outputs.ndim) if a != axis)
    return (outputs == 0).all(axis=others).astype(np.float32)


def _outside(x: Tensor, low: float, high: float) -> Tensor:
    x = x.astype(np.float32)
    return ((x <= low) | (x >= high)).astype(np.float32)


def _wide(x: Tensor) -> Tensor:
    # Most are of float32: with hundreds of them, at each measured step, looking it up adds up.
    return x if x.dtype == np.float32 else x.astype(jnp.promote_types(x.dtype, jnp.float32))
