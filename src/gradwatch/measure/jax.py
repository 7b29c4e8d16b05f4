"""JAX arrays, inside or outside `jax.jit`, on one device or on several."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradwatch.compat import jax_names
from gradwatch.core import CELLS, FIELDS, Tensor, Tree
from gradwatch.measure import jax_sharded
from gradwatch.measure.framework import Fetched, vector_axes
from gradwatch.measure.jax_parts import DeadUnits, array_of
from gradwatch.measure.kernels import jax_cells, jax_local, jax_moments
from gradwatch.measure.kernels.jax_computed import Below, Computed, Cosine, Normalized, value_of
from gradwatch.measure.kernels.jax_returned import HostRows, host_work
from gradwatch.measure.tensor_groups import measure_groups
from gradwatch.util import say

NAME = "jax"

# Compiled on first use: outside jit, one call instead of a dozen for each tensor.
_summarize = jax.jit(jax_local.summarize)
_summarize_together = jax.jit(jax_moments.summarize, static_argnums=2)
_count_cells = jax.jit(jax_cells.count_cells)
_measure_sharded = jax.jit(jax_sharded.measure, static_argnums=1)


def measure(
    tensors: Sequence[Tensor | DeadUnits | None], with_cells: Sequence[int] = (), due: Any = True
) -> tuple[Tensor, Tensor]:
    if not tensors:
        # Tables without rows have no need of 64 bits.
        return jnp.zeros((0, len(FIELDS)), jnp.float32), jnp.zeros((0, CELLS), jnp.int32)
    if _is_on_one_gpu():
        return _measure_on_gpu(tensors, with_cells, due)
    is_static = isinstance(due, bool | np.bool_)
    if _is_on_one_device():
        if with_cells and (not is_static or (due and any(map(is_traced, tensors)))):
            return jax_local.measure(tensors, with_cells, due)
        # Compiled separately: histograms are due more rarely, and perhaps never.
        rows, counted = _summarize(list(tensors)), [tensors[i] for i in with_cells]
        if is_static and due and counted:
            return rows, _count_cells(counted)
        return rows, jax_cells.count_cells(counted, False)
    if not is_static or any(is_traced(array_of(x)) for x in tensors):
        return jax_sharded.measure(tensors, with_cells, due)
    groups = _by_devices(tensors)
    if len(groups) > 1:
        return _measure_by_devices(tensors, with_cells, bool(due), groups)
    rows, cells = _measure_sharded(list(tensors), tuple(with_cells) if due else ())
    return rows, cells if due else jax_cells.count_cells([None for _ in with_cells], False)


def _measure_on_gpu(
    tensors: Sequence[Any], with_cells: Sequence[int], due: Any
) -> tuple[Tensor, Tensor]:
    together = jax_moments.read_together(tensors)
    # Tensors by themselves are summarised by one call, and those that belong together by another.
    alone = [None if i in together.row_of else _as_stored(x) for i, x in enumerate(tensors)]
    rows = _summarize(alone)
    if together.groups:
        arrays = list(map(_as_stored, together.arrays))
        further = _summarize_together(arrays, together.settings, together.groups)
        rows = _joined(rows, further, together.row_of)
    counted = [_as_stored(tensors[i]) for i in with_cells]
    if isinstance(due, bool | np.bool_) and due and counted:
        # Compiled separately: histograms are due more rarely, and perhaps never.
        return rows, _count_cells(counted)
    is_never = isinstance(due, bool | np.bool_)
    return rows, jax_cells.count_cells(counted, False if is_never else due)


def _as_stored(x: Any) -> Any:
    """A tensor as it is in memory, without a wider copy of it that only measuring would need."""
    x = value_of(x)
    return jax_names.before_widening(x) if array_of(x) is x and x is not None else x


@jax_names.in_wide_types
def _joined(rows: Tensor, further: Tensor, row_of: Mapping[int, int]) -> Tensor:
    order = np.arange(len(rows), dtype=np.int32)
    for i, row in row_of.items():
        order[i] = len(rows) + row
    return jnp.concatenate([rows, further])[order]


def _by_devices(tensors: Sequence[Tensor | DeadUnits | None]) -> list[list[int]]:
    """Positions of arrays that can be measured in one call: mostly all of them.

    Arrays committed to different devices, such as the stages of a pipeline, cannot.
    """
    groups: dict[frozenset[Any], list[int]] = {}
    free = []
    for i, tensor in enumerate(tensors):
        x = array_of(tensor)
        if isinstance(x, jax.Array) and x.committed:
            groups.setdefault(frozenset(x.sharding.device_set), []).append(i)
        else:
            free.append(i)
    first, *others = groups.values() or [[]]
    return [sorted(first + free), *others]


def _measure_by_devices(
    tensors: Sequence[Any], with_cells: Sequence[int], due: bool, groups: list[list[int]]
) -> tuple[Tensor, Tensor]:
    def measure_group(group: Sequence[int], counted: list[int]) -> tuple[Tensor, Tensor]:
        found = measure([tensors[i] for i in group], counted, due)
        # An asynchronous copy to one device: nothing waits.
        rows, cells = jax.device_put(found, jax.local_devices()[0])
        return rows, cells

    found = measure_groups(groups, with_cells, measure_group)
    with jax_names.wide_types():
        rows = jnp.concatenate(found.rows)[np.array(found.row_order, np.intp)]
        return rows, jnp.concatenate(found.cells)[np.array(found.cell_order, np.intp)]


def measure_one(tensor: Tensor) -> Tensor:
    return _first(measure([tensor])[0])


@jax_names.in_wide_types
def _first(rows: Tensor) -> Tensor:
    # Before JAX 0.7.1 what is done with 64 bits outside of this is not compiled.
    return rows[0]


def constant(number: int) -> Tensor:
    return jnp.asarray(number, jnp.int32)


def snapshot(value: Tensor) -> Tensor:
    return value


def copy(tensor: Tensor) -> Tensor:
    wide = jnp.promote_types(tensor.dtype, jnp.float32)
    # A new buffer: that of the training state is donated to the next step.
    return jnp.copy(tensor.astype(wide))


def difference(after: Tensor, before: Tensor) -> Tensor:
    wide = jnp.promote_types(after.dtype, jnp.float32)
    return after.astype(wide) - before.astype(wide)


def bias_correction(decay: Any, count: Any) -> Any:
    with np.errstate(divide="ignore"):  # A decay of 0 keeps nothing, and there is no bias.
        logarithm = jnp.log(decay) if isinstance(decay, jax.Array) else np.float32(np.log(decay))
    return -jnp.expm1(jnp.asarray(count).astype(jnp.float32) * logarithm)


def normalized(
    gradient: Tensor, second: Tensor, correction: Any, floor: Any
) -> Tensor | Normalized:
    return _unless_together(Normalized(gradient, second, correction, floor))


def below(second: Tensor, floor: Any) -> Tensor | Below:
    return _unless_together(Below(second, floor))


def cosine(a: Tensor, b: Tensor) -> Tensor | Cosine:
    return _unless_together(Cosine(a, b))


def _unless_together(computed: Computed) -> Tensor | Any:
    """The tensor that is computed, unless `measure` reads what it is computed of together."""
    return computed if _is_on_one_gpu() else computed.value()


def dead_units(outputs: Tensor, axis: int) -> Tensor | DeadUnits | None:
    if outputs.ndim < 2:
        return None
    units = DeadUnits(outputs, axis % outputs.ndim)
    # On several devices, whether a unit is dead is known only after their results are merged.
    return units.flags() if _is_on_one_device() else units


def outside(x: Tensor, low: float, high: float) -> Tensor:
    x = x.astype(jnp.float32)
    return ((x <= low) | (x >= high)).astype(jnp.float32)


def expert_load(scores: Tensor, choices: int) -> Tensor:
    experts = scores.shape[-1]
    _, chosen = jax.lax.top_k(scores, min(choices, experts))
    counts = jnp.zeros(experts, jnp.int32).at[chosen.ravel()].add(1)
    return counts.astype(jnp.float32)


def residual_ratio(branch: Tensor, stream: Tensor) -> Tensor:
    axes = vector_axes(branch.ndim)
    wide = jnp.promote_types(branch.dtype, jnp.float32)
    branch, stream = (jnp.linalg.vector_norm(x.astype(wide), axis=axes) for x in (branch, stream))
    return jnp.where(branch == 0, 0.0, branch / stream)


def is_traced(tensor: Tensor) -> bool:
    return isinstance(tensor, jax.core.Tracer)


def aside() -> AbstractContextManager[None]:
    return nullcontext()


def use_copies(outputs: Tree) -> None:
    pass


def fetch_number(number: Tensor) -> Callable[[], float]:
    if isinstance(number, jax.Array):
        number.copy_to_host_async()
    return lambda: float(np.asarray(number).reshape(()))


def fetch(measured: Mapping[str, Tensor], names: Sequence[str]) -> Fetched:
    if isinstance(measured.get("rows"), HostRows) and "rows" in names:
        return host_work(measured, names)
    available = [name for name in names if _is_available(measured[name])]
    if len(available) < len(names):
        _say_not_available()
    for name in available:
        measured[name].copy_to_host_async()
    return lambda: {name: np.asarray(measured[name]) for name in available}


def _is_available(x: Tensor) -> bool:
    """Whether this process has all of an array; not always so for the values a probe needs."""
    return bool(x.is_fully_addressable or x.is_fully_replicated)


@cache
def _say_not_available() -> None:
    say(
        "Pictures and spectral norms are not recorded of tensors that are divided over several "
        "processes: no process has all of their values."
    )


def _is_on_one_device() -> bool:
    return bool(jax.device_count() == 1)


def _is_on_one_gpu() -> bool:
    return _is_on_one_device() and jax.default_backend() == "gpu"
