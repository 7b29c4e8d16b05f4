"""JAX's arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradwatch.measure import jax as measure

# Compiled on first use: outside jit, one call instead of a dozen for each tensor.
_summarize = jax.jit(measure.summarize)
_count_cells = jax.jit(measure.count_cells)


def summarize(tensors: Sequence[Any]) -> Any:
    return _summarize(list(tensors))


def count_cells(tensors: Sequence[Any], due: Any = True) -> Any:
    if isinstance(due, bool | np.bool_):
        return _count_cells(list(tensors)) if due else measure.count_cells(tensors, False)
    return measure.count_cells(tensors, due)


def summarize_and_count(
    tensors: Sequence[Any], with_cells: Sequence[int], due: Any = True
) -> tuple[Any, Any]:
    return summarize(tensors), count_cells([tensors[i] for i in with_cells], due)


def constant(number: int) -> Any:
    return jnp.asarray(number, jnp.int32)


def snapshot(value: Any) -> Any:
    return value


def copy(tensor: Any) -> Any:
    wide = jnp.promote_types(tensor.dtype, jnp.float32)
    # A buffer of its own: that of the training state is donated to the next step.
    return jnp.copy(tensor.astype(wide))


def difference(after: Any, before: Any) -> Any:
    wide = jnp.promote_types(after.dtype, jnp.float32)
    return after.astype(wide) - before.astype(wide)


def dead_units(outputs: Any, axis: int) -> Any:
    if outputs.ndim < 2:
        return None
    others = tuple(a for a in range(outputs.ndim) if a != axis % outputs.ndim)
    return jnp.all(outputs == 0, axis=others).astype(jnp.float32)


def is_traced(tensor: Any) -> bool:
    return isinstance(tensor, jax.core.Tracer)


def fetch(measured: Mapping[str, Any], names: Sequence[str]) -> Callable[[], dict[str, Any]]:
    for name in names:
        measured[name].copy_to_host_async()
    return lambda: {name: np.asarray(measured[name]) for name in names}
