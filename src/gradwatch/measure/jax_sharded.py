"""Summaries of JAX arrays that are divided over several devices, each of the whole array.

By default, XLA merges every statistic of every array by a collective of its own. Here each device
measures the parts that it has, of all arrays. Then one all-reduce adds up all sums and counts,
and a second one finds all minima and maxima. If several devices have the same part, the first
one counts it. If no array is divided, there is nothing to merge.

How arrays are divided is known when a step is compiled, not when it is traced: XLA calls
`_partition` then, through JAX's `custom_partitioning`. Inside `jax.shard_map` the user has
divided them, and the types of the arrays say how.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.custom_partitioning import SdyShardingRule, custom_partitioning
from jax.extend.core import jaxpr_as_fun
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gradwatch.compat import jax_names
from gradwatch.core import CELLS, FIELDS, IDENTITY, Tensor
from gradwatch.measure.jax_parts import AcrossDevices, DeadUnits, PartMeasure, array_of
from gradwatch.measure.kernels.jax_layout import placed

_AXIS = "gradwatch"


@jax_names.in_wide_types
def measure(
    tensors: Sequence[Tensor | DeadUnits | None], with_cells: Sequence[int], due: Any = True
) -> tuple[Tensor, Tensor]:
    counted = set(with_cells)
    # Histograms of dead units have two cells.
    tensors = [
        x.flags() if isinstance(x, DeadUnits) and i in counted else x for i, x in enumerate(tensors)
    ]
    found = {i: array_of(x) for i, x in enumerate(tensors)}
    present = [i for i, x in found.items() if x is not None and x.size]
    work = PartMeasure(
        tuple(
            x.axis if isinstance(x, DeadUnits) else None for x in map(tensors.__getitem__, present)
        ),
        tuple(k for k, i in enumerate(present) if i in counted) if due is not False else (),
        bool(due) if isinstance(due, bool | np.bool_) else None,
    )
    # Nothing is differentiated here, even if the step is.
    arrays = [lax.stop_gradient(found[i]) for i in present]
    flag = [] if work.due is not None else [jnp.asarray(due)]
    rows = jnp.zeros((0, len(FIELDS)), jnp.float64)
    cells = jnp.zeros((0, CELLS), jnp.int64)
    if arrays:
        rows, cells = _measure_present(work, arrays, flag)
    index_of = {i: k for k, i in enumerate(with_cells)}
    cell_positions = [index_of[present[k]] for k in work.counted]
    return (
        placed(rows, present, len(tensors), IDENTITY),
        placed(cells, cell_positions, len(with_cells), np.zeros(CELLS, np.int64)),
    )


def _measure_present(
    work: PartMeasure, arrays: list[Tensor], flag: list[Tensor]
) -> tuple[Tensor, Tensor]:
    mesh = jax_names.manual_mesh()
    if mesh is not None:
        return _inside_shard_map(work, arrays, flag, mesh)
    explicit = next(filter(None, map(jax_names.explicit_mesh, arrays)), None)
    if explicit is not None:
        # With types that say how arrays are divided, every operation would have to say it too.
        whole = NamedSharding(explicit, PartitionSpec())
        automatic = jax.sharding.auto_axes(
            lambda *args: _automatic(work, args), out_sharding=(whole, whole)
        )
        rows, cells = automatic(*arrays, *flag)
        return rows, cells
    return _automatic(work, (*arrays, *flag))


def _automatic(work: PartMeasure, args: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Rows and cells of arrays that XLA divides."""
    partitioned = custom_partitioning(jax.jit(work.on_whole))
    partitioned.def_partition(
        lambda mesh, args, results: _partition(work, args, results),
        infer_sharding_from_operands=lambda mesh, args, results: (_whole(args),) * len(results),
        decode_shardings=False,
        sharding_rule=_independent,
    )
    try:
        rows, cells = partitioned(*args)
    except NotImplementedError:
        # Inside jax.vmap, which does not support custom_partitioning.
        return work.on_whole(*args)
    return rows, cells


def _independent(mesh: Any, operands: Sequence[Tensor], results: Sequence[Tensor]) -> Any:
    """The rule that arrays and results are divided independently."""
    mappings = [
        [tuple(f"{kind}{i}_{axis}" for axis in range(len(each.shape))) for i, each in enumerate(of)]
        for kind, of in (("operand", operands), ("result", results))
    ]
    return SdyShardingRule(*map(tuple, mappings))


def _partition(work: PartMeasure, args: Sequence[Tensor], results: Sequence[Tensor]) -> Any:
    """For `custom_partitioning`: mesh, function of parts, shardings of results and of arguments.

    Called while the step is compiled: an exception would stop training.
    """
    whole = _whole(args)
    devices = list(whole.mesh.devices)
    shardings = [_sharding(x, whole) for x in args]
    try:
        function = _on_parts(work, args, shardings, devices)
        parts = [
            jax.ShapeDtypeStruct(s.shard_shape(x.shape), x.dtype)
            for s, x in zip(shardings, args, strict=True)
        ]
        made = jax.make_jaxpr(function, axis_env=[(_AXIS, len(devices))])(*parts)
        function = _with_x64(jaxpr_as_fun(made))  # It is traced once more.
        if [(o.shape, o.dtype) for o in made.out_avals] != [(r.shape, r.dtype) for r in results]:
            raise TypeError(f"Results of another form: {made.out_avals}, not {results}.")
    except Exception:
        # Every device gets all arrays: slower, with the same results.
        shardings = [whole for _ in args]
        function = _with_x64(work.on_whole)
    return whole.mesh, function, (whole,) * len(results), tuple(shardings)


def _on_parts(
    work: PartMeasure, args: Sequence[Tensor], shardings: Sequence[Any], devices: Sequence[Any]
) -> Callable[..., Any]:
    # For each array and device, where in the whole array the part of the device begins.
    starts = []
    for sharding, x in zip(shardings, args, strict=True):
        indices = sharding.devices_indices_map(x.shape)
        starts.append([tuple(cut.start or 0 for cut in indices[device]) for device in devices])
    if all(len(set(each)) == 1 for each in starts):
        return _with_x64(work.on_whole)
    # The first of the devices that have the same part counts it.
    is_counted = np.array([[s not in each[:k] for k, s in enumerate(each)] for each in starts]).T
    axes = {i: axis for i, axis in enumerate(work.units) if axis is not None}

    def on_parts(*parts: Any) -> tuple[Tensor, Tensor]:
        device = lax.axis_index(_AXIS)
        across = AcrossDevices(
            jnp.asarray(is_counted)[device],
            {
                i: jnp.asarray([start[axis] for start in starts[i]], jnp.int32)[device]
                for i, axis in axes.items()
            },
            {i: args[i].shape[axis] for i, axis in axes.items()},
            _AXIS,
        )
        return work.on_parts(parts, across)

    return _with_x64(on_parts)


def _with_x64(function: Callable[..., Any]) -> Callable[..., Any]:
    def wider(*args: Any) -> Any:
        with jax_names.wide_types():
            return function(*args)

    return wider


def _sharding(x: Tensor, whole: Any) -> Any:
    """The sharding of an array; `whole` where its parts would differ in size."""
    try:
        x.sharding.shard_shape(x.shape)
        x.sharding.devices_indices_map(x.shape)
        return x.sharding
    except Exception:
        return whole


def _whole(args: Sequence[Tensor]) -> NamedSharding:
    """The sharding of an array that every device has, in the order that XLA has for devices."""
    devices = np.array(args[0].sharding._device_assignment)
    return NamedSharding(Mesh(devices, (_AXIS,)), PartitionSpec())


def _inside_shard_map(
    work: PartMeasure, arrays: list[Tensor], flag: list[Tensor], mesh: Any
) -> tuple[Tensor, Tensor]:
    """Rows and cells of the whole arrays, the same on every device."""
    axes = tuple(mesh.manual_axes)
    left = [a for a in mesh.axis_names if a not in axes and mesh.shape[a] > 1]
    if left:
        raise NotImplementedError(
            f"Arrays are not measured inside a shard_map over {', '.join(axes)} only, of a mesh "
            f"that also has {', '.join(left)}. Return them, and measure outside."
        )
    if not jax_names.varying(lax.axis_index(axes)):
        raise NotImplementedError(
            "Inside shard_map(..., check_vma=False) or pmap it cannot be seen which arrays are "
            "parts and which are copies, so they are not measured. Leave check_vma=True, or "
            "return them and measure outside."
        )
    if any(axis is not None for axis in work.units):
        raise NotImplementedError(
            "Dead units are not found inside shard_map, where a device has some of the batch. "
            "Watch outputs without per_unit, or return them and measure outside."
        )
    varying = [jax_names.varying(x) for x in arrays]
    divided = tuple(a for a in axes if any(a in each for each in varying))
    if not divided:
        return work.on_whole(*arrays, *flag)
    copied = [tuple(a for a in divided if a not in each) for each in varying]
    is_counted = [lax.axis_index(c) == 0 if c else jnp.asarray(True) for c in copied]
    parts = [jax_names.vary(x, c) for x, c in zip(arrays, copied, strict=True)]
    return work.on_parts((*parts, *flag), AcrossDevices(jnp.stack(is_counted), {}, {}, divided))
