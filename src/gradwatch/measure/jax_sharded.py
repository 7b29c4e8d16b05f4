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

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.custom_partitioning import SdyShardingRule, custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gradwatch.histogram import CELLS
from gradwatch.measure import jax_local
from gradwatch.summary import FIELDS, IDENTITY

ADDED = len(FIELDS) - 2
"""All fields but the last two, minimum and maximum, merge by addition."""
_AXIS = "gradwatch"
_Merge = Callable[[Any], Any]


class DeadUnits(NamedTuple):
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


class Place(NamedTuple):
    """Where the part of an array lies that a device has."""

    is_mine: Any
    """Whether it is this device's to count."""
    start: tuple[Any, ...] = ()
    """In each dimension, the index of its first element in the whole."""


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
            due if isinstance(due, bool | np.bool_) else None,
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
        whole = [Place(True, (0,) * x.ndim) for x in arrays[: len(self.units)]]
        sizes = [x.shape for x in arrays]
        return self.on_parts(arrays, whole, sizes, None, None)

    def on_parts(
        self,
        arrays: Sequence[Any],
        places: Sequence[Place],
        shapes: Sequence[tuple[int, ...]],
        add: _Merge | None,
        most: _Merge | None,
    ) -> tuple[Any, Any]:
        """The same from what this device has of them.

        Args:
            arrays: the parts; then the flag, where there is one.
            places: where each lies.
            shapes: those of the whole arrays.
            add: gives the sum over all devices; None if this one has everything.
            most: gives the greatest over all devices.
        """
        plain = [i for i, axis in enumerate(self.units) if axis is None]
        units = [i for i, axis in enumerate(self.units) if axis is not None]
        packed = jax_local.summarize([arrays[i] for i in plain])
        sums, bounds = packed[:, :ADDED], packed[:, ADDED:] * np.array([-1.0, 1.0])
        alive = [self._alive(i, arrays[i], places[i], shapes[i]) for i in units]
        if add is not None:
            mine = jnp.stack([jnp.asarray(places[i].is_mine) for i in plain] or [jnp.asarray(True)])
            # Not by multiplication: a sum of squares may be infinite.
            sums = jnp.where(mine[: len(plain), None], sums, 0.0)
            bounds = jnp.where(mine[: len(plain), None], bounds, -np.inf)

        def brought(with_cells: bool) -> list[Any]:
            parts = [sums, *alive]
            if self.counted:
                empty = jnp.zeros((len(self.counted), CELLS), jnp.float64)
                parts += [self._cells(arrays, places, add) if with_cells else empty]
            if add is None:
                return parts
            travelling = parts if with_cells or not self.counted else parts[:-1]
            flat = add(jnp.concatenate([part.reshape(-1) for part in travelling]))
            ends = np.cumsum([part.size for part in travelling])
            arrived = jnp.split(flat, ends[:-1])
            back = [a.reshape(p.shape) for a, p in zip(arrived, travelling, strict=True)]
            return back + parts[len(travelling) :]

        if self.counted and self.due is None:
            # The flag is the same everywhere, so all devices take the same branch.
            found = lax.cond(arrays[-1], lambda: brought(True), lambda: brought(False))
        else:
            found = brought(bool(self.due))
        cells = jnp.zeros((0, CELLS), jnp.int64)
        if self.counted:
            *found, counts = found
            cells = counts.astype(jnp.int64)
        if most is not None and plain:
            bounds = most(bounds)
        low_high = bounds * np.array([-1.0, 1.0])
        tables = [jnp.concatenate([found[0], low_high], axis=1)]
        tables += [jax_local.summarize([(flags == 0).astype(jnp.float32)]) for flags in found[1:]]
        order = np.argsort(np.array(plain + units))
        return jnp.concatenate(tables)[order], cells

    def _alive(self, i: int, part: Any, place: Place, shape: tuple[int, ...]) -> Any:
        """For each unit of the whole whether this device has seen it alive."""
        axis = self.units[i]
        assert axis is not None
        alive = DeadUnits(part, axis).alive().astype(jnp.float64)
        if len(alive) == shape[axis]:
            return alive
        return lax.dynamic_update_slice(
            jnp.zeros((shape[axis],), jnp.float64), alive, (place.start[axis],)
        )

    def _cells(self, arrays: Sequence[Any], places: Sequence[Place], add: Any) -> Any:
        cells = jax_local.count_cells([arrays[i] for i in self.counted]).astype(jnp.float64)
        if add is None:
            return cells
        mine = jnp.stack([jnp.asarray(places[i].is_mine) for i in self.counted])
        return jnp.where(mine[:, None], cells, 0.0)


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
        return tuple(automatic(*arrays, *flag))  # type: ignore[return-value]
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
        if [(o.shape, o.dtype) for o in made.out_avals] != [(r.shape, r.dtype) for r in results]:
            raise TypeError(f"Results of the wrong form: {made.out_avals}")
    except Exception:
        # Every device gets all of everything: slower, and as true.
        shardings = [whole for _ in args]
        function = _with_x64(work.on_whole)
    return mesh, function, _everywhere(devices, len(results)), tuple(shardings)


def _on_parts_of(
    work: Work, args: Sequence[Any], shardings: Sequence[Any], devices: Sequence[Any]
) -> Callable[..., Any]:
    tables = [
        _table(s.devices_indices_map(x.shape), devices, x.shape)
        for s, x in zip(shardings, args, strict=True)
    ]
    is_divided = any(len(np.unique(table.start, axis=0)) > 1 for table in tables)
    if not is_divided:
        return _with_x64(work.on_whole)

    def on_parts(*parts: Any) -> tuple[Any, Any]:
        device = lax.axis_index(_AXIS)
        places = [
            Place(
                jnp.asarray(table.is_mine)[device],
                tuple(jnp.asarray(starts)[device] for starts in table.start.T),
            )
            for table in tables
        ]
        return work.on_parts(
            parts,
            places,
            [x.shape for x in args],
            lambda x: lax.psum(x, _AXIS),
            lambda x: lax.pmax(x, _AXIS),
        )

    return _with_x64(on_parts)


class _Table(NamedTuple):
    """The places of all devices, one row each."""

    is_mine: Any
    start: Any


def _table(
    indices: dict[Any, tuple[slice, ...]], devices: Sequence[Any], shape: tuple[int, ...]
) -> _Table:
    starts = [tuple(cut.start or 0 for cut in indices[device]) for device in devices]
    first = {start: k for k, start in reversed(list(enumerate(starts)))}
    is_mine = np.array([first[start] == k for k, start in enumerate(starts)])
    return _Table(is_mine, np.array(starts, np.int32).reshape(len(devices), len(shape)))


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


def _inside_shard_map(
    work: Work, arrays: list[Any], flag: list[Any], mesh: Any
) -> tuple[Any, Any]:
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
    places = []
    for each in varying:
        copies = tuple(a for a in divided if a not in each)
        places.append(Place(lax.axis_index(copies) == 0 if copies else True))
    parts = [
        lax.pcast(x, tuple(a for a in divided if a not in each), to="varying")
        for x, each in zip(arrays, varying, strict=True)
    ]
    return work.on_parts(
        (*parts, *flag),
        places,
        [x.shape for x in arrays],
        lambda x: lax.psum(x, divided),
        lambda x: lax.pmax(x, divided),
    )


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
