"""Summaries of JAX arrays that lie on several devices, each of the array as a whole.

Left to itself, XLA brings every statistic of every array together by a collective of its own.
Here each device measures the parts that it has, of all arrays; then one all-reduce adds up all
sums and counts, and a second one finds all minima and maxima. Of a part that several devices
have, the first one's counts. If no array is divided, there is nothing to bring together.

How arrays are divided is known when a step is compiled, not when it is traced: XLA asks
`_divided` then, by way of JAX's `custom_partitioning`. Inside `jax.shard_map` it is the user who
has divided them, and the types of the arrays tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.custom_partitioning import SdyShardingRule, custom_partitioning
from jax.extend.core import jaxpr_as_fun
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import gradwatch.measure.jax_local as jax_local
from gradwatch.core import CELLS, FIELDS, IDENTITY

ADDED = len(FIELDS) - 2
"""All fields but the last two, minimum and maximum, merge by addition."""
_AXIS = "gradwatch"
_UPWARDS = np.array([-1.0, 1.0])
"""Minimum and maximum times this are two maxima."""


@partial(jax.tree_util.register_dataclass, data_fields=["outputs"], meta_fields=["axis"])
@dataclass(frozen=True)
class DeadUnits:
    """Stands for one number a unit of a layer: 1 if all its outputs are 0, else 0."""

    outputs: Any
    axis: int

    def flags(self) -> Any:
        """The numbers themselves."""
        return (self.alive() == 0).astype(jnp.float32)

    def alive(self) -> Any:
        """For each unit a number that is not 0 if one of its outputs is not."""
        others = tuple(a for a in range(self.outputs.ndim) if a != self.axis)
        return jnp.any(self.outputs != 0, axis=others).astype(jnp.float32)


class Meeting(NamedTuple):
    """How a device's results come together with those of the others."""

    is_mine: Any
    """For each array whether what the device has of it is its own to count."""
    starts: Mapping[int, Any]
    """Of arrays with units, the index of the device's first unit among all."""
    units: Mapping[int, int]
    """Of the same, the number of all units."""
    add: Callable[[Any], Any]
    """The sum over all devices."""
    most: Callable[[Any], Any]
    """The greatest over all devices."""


def summarize_and_count(
    tensors: Sequence[Any], with_cells: Sequence[int], due: Any
) -> tuple[Any, Any]:
    """See `gradwatch.measure.jax`."""
    counted = set(with_cells)
    # Histograms of dead units are two cells.
    tensors = [x.flags() if _is_units(x) and i in counted else x for i, x in enumerate(tensors)]
    present = [i for i, x in enumerate(tensors) if x is not None and _array(x).size]
    with jax.enable_x64(True):
        work = Work(
            tuple(tensors[i].axis if _is_units(tensors[i]) else None for i in present),
            tuple(k for k, i in enumerate(present) if i in counted) if due is not False else (),
            bool(due) if isinstance(due, bool | np.bool_) else None,
        )
        # Nothing is differentiated here, even if the step is.
        arrays = [lax.stop_gradient(_array(tensors[i])) for i in present]
        flag = [] if work.due is not None else [jnp.asarray(due)]
        rows = jnp.zeros((0, len(FIELDS)), jnp.float64)
        cells = jnp.zeros((0, CELLS), jnp.int64)
        if arrays:
            rows, cells = _measured(work, arrays, flag)
        row_of = {i: k for k, i in enumerate(present)}
        cells_of = {present[k]: at for at, k in enumerate(work.counted)}
        return (
            _placed(rows, [row_of.get(i) for i in range(len(tensors))], IDENTITY),
            _placed(cells, [cells_of.get(i) for i in with_cells], np.zeros(CELLS, np.int64)),
        )


def _placed(table: Any, places: list[int | None], otherwise: Any) -> Any:
    """The rows at these places; `otherwise` where there is none."""
    if places == list(range(len(table))):
        return table
    wider = jnp.concatenate([table, jnp.asarray(otherwise)[None]])
    return wider[np.array([len(table) if p is None else p for p in places], np.int32)]


class Work(NamedTuple):
    """What is to be found out of some arrays."""

    units: tuple[int | None, ...]
    """For each array None, or the axis of the units of which the dead ones are wanted."""
    counted: tuple[int, ...]
    """The arrays of which cells are counted."""
    due: bool | None
    """Whether they are; None if an argument of the step tells."""

    def on_whole(self, *arrays: Any) -> tuple[Any, Any]:
        """The rows and cells of arrays of which this device has all."""
        return self.on_parts(arrays, None)

    def on_parts(self, arrays: Sequence[Any], meeting: Meeting | None) -> tuple[Any, Any]:
        """The same from what this device has of them.

        Args:
            arrays: the parts; then the flag, where there is one.
            meeting: how all devices' results come together; None if this one has everything.
        """
        plain = [i for i, axis in enumerate(self.units) if axis is None]
        units = [i for i, axis in enumerate(self.units) if axis is not None]
        packed = jax_local.summarize([arrays[i] for i in plain])
        sums, bounds = packed[:, :ADDED], packed[:, ADDED:] * _UPWARDS
        if meeting is not None:
            mine = meeting.is_mine[np.array(plain, np.int32)][:, None]
            # Not by multiplication: a sum of squares may be infinite.
            sums, bounds = jnp.where(mine, sums, 0.0), jnp.where(mine, bounds, -np.inf)
        alive = [self._alive(i, arrays[i], meeting) for i in units]
        no_cells = jnp.zeros((len(self.counted), CELLS), jnp.float64)

        def brought(with_cells: bool) -> list[Any]:
            parts = [sums, *alive]
            if with_cells:
                parts.append(self._cells(arrays, meeting))
            if meeting is not None:
                parts = _at_once(meeting.add, parts)
            return parts if with_cells else [*parts, no_cells]

        if self.counted and self.due is None:
            # The flag is the same everywhere, so all devices take the same branch.
            found = lax.cond(arrays[-1], lambda: brought(True), lambda: brought(False))
        else:
            found = brought(bool(self.counted and self.due))
        sums, *alive, cells = found
        if meeting is not None and plain:
            bounds = meeting.most(bounds)
        dead = [jax_local.summarize([(a == 0).astype(jnp.float32)]) for a in alive]
        rows = jnp.concatenate([jnp.concatenate([sums, bounds * _UPWARDS], axis=1), *dead])
        return rows[np.argsort(np.array(plain + units))], cells.astype(jnp.int64)

    def _alive(self, i: int, part: Any, meeting: Meeting | None) -> Any:
        """For each unit of the whole whether this device has seen it alive."""
        axis = self.units[i]
        assert axis is not None
        alive = DeadUnits(part, axis).alive().astype(jnp.float64)
        if meeting is None or len(alive) == meeting.units[i]:
            return alive
        every = jnp.zeros((meeting.units[i],), jnp.float64)
        return lax.dynamic_update_slice(every, alive, (meeting.starts[i],))

    def _cells(self, arrays: Sequence[Any], meeting: Meeting | None) -> Any:
        cells = jax_local.count_cells([arrays[i] for i in self.counted]).astype(jnp.float64)
        if meeting is None:
            return cells
        return jnp.where(meeting.is_mine[np.array(self.counted)][:, None], cells, 0.0)


def _at_once(function: Callable[[Any], Any], arrays: Sequence[Any]) -> list[Any]:
    """A function of each array, element by element, called once for all."""
    flat = function(jnp.concatenate([x.reshape(-1) for x in arrays]))
    ends = np.cumsum([x.size for x in arrays])
    return [
        part.reshape(x.shape) for part, x in zip(jnp.split(flat, ends[:-1]), arrays, strict=True)
    ]


def _measured(work: Work, arrays: list[Any], flag: list[Any]) -> tuple[Any, Any]:
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.manual_axes:
        return _inside_shard_map(work, arrays, flag, mesh)
    explicit = _explicit_mesh(arrays)
    if explicit is not None:
        # Their types say how arrays are divided, and would have every operation say it too.
        whole = NamedSharding(explicit, PartitionSpec())
        automatic = jax.sharding.auto_axes(
            lambda *args: _automatic(work, args), out_sharding=(whole, whole)
        )
        rows, cells = automatic(*arrays, *flag)
        return rows, cells
    return _automatic(work, (*arrays, *flag))


def _automatic(work: Work, args: Sequence[Any]) -> tuple[Any, Any]:
    """The rows and cells of arrays that XLA divides as it likes."""
    divided = custom_partitioning(jax.jit(work.on_whole))
    divided.def_partition(
        lambda mesh, args, results: _divided(work, args, results),
        infer_sharding_from_operands=lambda mesh, args, results: _everywhere(
            _devices(args), len(results)
        ),
        decode_shardings=False,
        sharding_rule=_independent,
    )
    try:
        rows, cells = divided(*args)
    except NotImplementedError:
        # Inside jax.vmap, which does not know it.
        return work.on_whole(*args)
    return rows, cells


def _independent(mesh: Any, operands: Sequence[Any], results: Sequence[Any]) -> Any:
    """That how one array is divided says nothing of the others, or of the results."""
    mappings = [
        [tuple(f"{kind}{i}_{axis}" for axis in range(len(each.shape))) for i, each in enumerate(of)]
        for kind, of in (("operand", operands), ("result", results))
    ]
    return SdyShardingRule(*map(tuple, mappings))


def _divided(work: Work, args: Sequence[Any], results: Sequence[Any]) -> Any:
    """What `custom_partitioning` asks for: mesh, function of parts, shardings of results, of args.

    Called while the step is compiled, where an exception would stop training.
    """
    devices = _devices(args)
    mesh = Mesh(np.array(devices), (_AXIS,))
    whole = NamedSharding(mesh, PartitionSpec())
    shardings = [_even(x, whole) for x in args]
    try:
        function = _on_parts_of(work, args, shardings, devices)
        parts = [
            jax.ShapeDtypeStruct(s.shard_shape(x.shape), x.dtype)
            for s, x in zip(shardings, args, strict=True)
        ]
        made = jax.make_jaxpr(function, axis_env=[(_AXIS, len(devices))])(*parts)
        function = _with_x64(jaxpr_as_fun(made))  # It will be traced once more.
        if [(o.shape, o.dtype) for o in made.out_avals] != [(r.shape, r.dtype) for r in results]:
            raise TypeError(f"Results of another form: {made.out_avals}, not {results}.")
    except Exception:
        # Every device gets all of everything: slower, and as true.
        shardings = [whole for _ in args]
        function = _with_x64(work.on_whole)
    return mesh, function, _everywhere(devices, len(results)), tuple(shardings)


def _on_parts_of(
    work: Work, args: Sequence[Any], shardings: Sequence[Any], devices: Sequence[Any]
) -> Callable[..., Any]:
    starts = [
        _starts(s.devices_indices_map(x.shape), devices)
        for s, x in zip(shardings, args, strict=True)
    ]
    if all(len(set(of_device)) == 1 for of_device in starts):
        return _with_x64(work.on_whole)
    is_mine = np.array([_is_first(of_device) for of_device in starts]).T
    axes = {i: axis for i, axis in enumerate(work.units) if axis is not None}

    def on_parts(*parts: Any) -> tuple[Any, Any]:
        device = lax.axis_index(_AXIS)
        meeting = Meeting(
            jnp.asarray(is_mine)[device],
            {
                i: jnp.asarray([start[axis] for start in starts[i]], jnp.int32)[device]
                for i, axis in axes.items()
            },
            {i: args[i].shape[axis] for i, axis in axes.items()},
            lambda x: lax.psum(x, _AXIS),
            lambda x: lax.pmax(x, _AXIS),
        )
        return work.on_parts(parts, meeting)

    return _with_x64(on_parts)


def _starts(indices: Any, devices: Sequence[Any]) -> list[tuple[int, ...]]:
    """For each device, where in the whole array its part begins."""
    return [tuple(cut.start or 0 for cut in indices[device]) for device in devices]


def _is_first(starts: Sequence[Any]) -> list[bool]:
    """For each device, whether no other before it has the same part."""
    return [start not in starts[:k] for k, start in enumerate(starts)]


def _with_x64(function: Callable[..., Any]) -> Callable[..., Any]:
    def wider(*args: Any) -> Any:
        with jax.enable_x64(True):
            return function(*args)

    return wider


def _even(x: Any, whole: Any) -> Any:
    """How the array is divided; `whole` where the parts would not be of one size."""
    try:
        x.sharding.shard_shape(x.shape)
        x.sharding.devices_indices_map(x.shape)
        return x.sharding
    except Exception:
        return whole


def _devices(args: Sequence[Any]) -> list[Any]:
    """The devices, as XLA counts them."""
    return list(args[0].sharding._device_assignment)


def _everywhere(devices: Sequence[Any], count: int) -> tuple[Any, ...]:
    whole = NamedSharding(Mesh(np.array(devices), (_AXIS,)), PartitionSpec())
    return (whole,) * count


def _explicit_mesh(arrays: Sequence[Any]) -> Any:
    for x in arrays:
        mesh = getattr(jax.typeof(x).sharding, "mesh", None)
        if mesh is not None and mesh.explicit_axes:
            return mesh
    return None


def _inside_shard_map(work: Work, arrays: list[Any], flag: list[Any], mesh: Any) -> tuple[Any, Any]:
    """The rows and cells of all parts of the arrays together, the same on every device."""
    axes = tuple(mesh.manual_axes)
    left = [a for a in mesh.axis_names if a not in axes and mesh.shape[a] > 1]
    if left:
        raise NotImplementedError(
            f"Arrays are not measured inside a shard_map over {', '.join(axes)} only, of a mesh "
            f"that also has {', '.join(left)}. Return them, and measure outside."
        )
    if not _varying(lax.axis_index(axes)):
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
    varying = [_varying(x) for x in arrays]
    divided = tuple(a for a in axes if any(a in each for each in varying))
    if not divided:
        return work.on_whole(*arrays, *flag)
    copied = [tuple(a for a in divided if a not in each) for each in varying]
    is_mine = [lax.axis_index(c) == 0 if c else jnp.asarray(True) for c in copied]
    parts = [lax.pcast(x, c, to="varying") for x, c in zip(arrays, copied, strict=True)]
    meeting = Meeting(
        jnp.stack(is_mine), {}, {}, lambda x: lax.psum(x, divided), lambda x: lax.pmax(x, divided)
    )
    return work.on_parts((*parts, *flag), meeting)


def _varying(x: Any) -> frozenset[str]:
    """The axes of the mesh along which an array differs from device to device."""
    kind = jax.typeof(x)
    if hasattr(kind, "vma"):
        return frozenset(kind.vma)
    return frozenset(kind.manual_axis_type.varying)


def _array(x: Any) -> Any:
    return x.outputs if _is_units(x) else x


def _is_units(x: Any) -> bool:
    return isinstance(x, DeadUnits)
