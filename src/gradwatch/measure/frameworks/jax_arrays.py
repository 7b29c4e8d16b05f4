"""JAX's arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradwatch.measure import jax as measure
from gradwatch.measure.jax_sharded import DeadUnits
from gradwatch.util import say

# Compiled on first use: outside jit, one call instead of a dozen for each tensor.
_summarize = jax.jit(measure.summarize)
_count_cells = jax.jit(measure.count_cells)
_summarize_and_count = jax.jit(measure.summarize_and_count, static_argnums=1)


def summarize(tensors: Sequence[Any]) -> Any:
    return summarize_and_count(tensors, (), False)[0]


def count_cells(tensors: Sequence[Any], due: Any = True) -> Any:
    if isinstance(due, bool | np.bool_):
        return _count_cells(list(tensors)) if due else measure.count_cells(tensors, False)
    return measure.count_cells(tensors, due)


def summarize_and_count(
    tensors: Sequence[Any], with_cells: Sequence[int], due: Any = True
) -> tuple[Any, Any]:
    if measure.is_on_one_device():
        # Each compiled on its own: histograms are due more rarely, and perhaps never.
        rows = _summarize(list(tensors))
        return rows, count_cells([tensors[i] for i in with_cells], due)
    if not isinstance(due, bool | np.bool_):
        return measure.summarize_and_count(tensors, with_cells, due)
    groups = _by_devices(tensors)
    if len(groups) > 1:
        return _group_by_group(tensors, with_cells, bool(due), groups)
    if due and len(with_cells):
        rows, cells = _summarize_and_count(list(tensors), tuple(with_cells))
        return rows, cells
    return _summarize(list(tensors)), measure.count_cells([None for _ in with_cells], False)


def _by_devices(tensors: Sequence[Any]) -> list[list[int]]:
    """The positions of arrays that can be measured at once: all of them, mostly.

    Arrays that are bound to different devices, as those of a pipeline's stages, cannot.
    """
    groups: dict[Any, list[int]] = {}
    free = []
    for i, tensor in enumerate(tensors):
        x = tensor.outputs if isinstance(tensor, DeadUnits) else tensor
        is_bound = isinstance(x, jax.Array) and not is_traced(x) and x.committed
        if is_bound:
            groups.setdefault(frozenset(x.sharding.device_set), []).append(i)
        else:
            free.append(i)
    first, *others = groups.values() or [[]]
    return [sorted(first + free), *others]


def _group_by_group(
    tensors: Sequence[Any], with_cells: Sequence[int], due: bool, groups: list[list[int]]
) -> tuple[Any, Any]:
    rows, cells, counted = [], [], []
    for group in groups:
        own = [at for at, i in enumerate(group) if i in with_cells]
        found = summarize_and_count([tensors[i] for i in group], own, due)
        # To one device, which takes them when they are there: nobody waits.
        own_rows, own_cells = jax.device_put(found, jax.local_devices()[0])
        rows.append(own_rows)
        cells.append(own_cells)
        counted += [group[at] for at in own]
    with jax.enable_x64(True):
        order = np.argsort(np.concatenate([np.array(group) for group in groups]))
        return jnp.concatenate(rows)[order], jnp.concatenate(cells)[
            np.argsort(np.array(counted, np.intp))
        ]


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
    return measure.dead_units(outputs, axis)


def is_traced(tensor: Any) -> bool:
    return isinstance(tensor, jax.core.Tracer)


def apart() -> AbstractContextManager[None]:
    return nullcontext()


def fetch(measured: Mapping[str, Any], names: Sequence[str]) -> Callable[[], dict[str, Any]]:
    within_reach = [name for name in names if _is_within_reach(measured[name])]
    if len(within_reach) < len(names):
        _say_out_of_reach()
    for name in within_reach:
        measured[name].copy_to_host_async()
    return lambda: {name: np.asarray(measured[name]) for name in within_reach}


def _is_within_reach(x: Any) -> bool:
    """Whether this process can have all of an array; of values that probes want, not always."""
    return bool(x.is_fully_addressable or x.is_fully_replicated)


@cache
def _say_out_of_reach() -> None:
    say(
        "Pictures and spectral norms are not recorded of tensors that are divided over several "
        "processes: no process has all of their values."
    )
