"""Measures the parts of JAX arrays that one device has, and merges the results of all devices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwatch.core import CELLS, FIELDS, Tensor
from gradwatch.measure.kernels import jax_cells, jax_local

_ADDED = len(FIELDS) - 2
"""All fields but the last two, minimum and maximum, merge by addition."""
_SIGNS = np.array([-1.0, 1.0])
"""Minimum and maximum times this both merge by maximum."""


@partial(jax.tree_util.register_dataclass, data_fields=["outputs"], meta_fields=["axis"])
@dataclass(frozen=True)
class DeadUnits:
    """Stands for one number per unit of a layer: 1 if all its outputs are 0, else 0."""

    outputs: Tensor
    axis: int

    def flags(self) -> Tensor:
        return (self.alive() == 0).astype(jnp.float32)

    def alive(self) -> Tensor:
        """For each unit, a number that is not 0 if one of its outputs is not."""
        others = tuple(a for a in range(self.outputs.ndim) if a != self.axis)
        return jnp.any(self.outputs != 0, axis=others).astype(jnp.float32)


def array_of(x: Any) -> Tensor | None:
    """The array itself, or the outputs of `DeadUnits`."""
    return x.outputs if isinstance(x, DeadUnits) else x


class AcrossDevices(NamedTuple):
    """How the results of one device merge with those of the others."""

    is_counted: Tensor
    """For each array, whether this device counts its part: of equal parts, only one counts."""
    starts: Mapping[int, Tensor]
    """Of arrays with units, the index of the first unit of this device."""
    units: Mapping[int, int]
    """Of the same arrays, the number of all units."""
    axes: str | tuple[str, ...]
    """The axes of the mesh over which results are reduced."""


class PartMeasure(NamedTuple):
    """Measures some arrays, as a whole or in parts."""

    units: tuple[int | None, ...]
    """For each array None, or the axis of the units of which to count the dead ones."""
    counted: tuple[int, ...]
    due: bool | None
    """Whether cells are counted; None if an argument of the step says so."""

    def on_whole(self, *arrays: Tensor) -> tuple[Tensor, Tensor]:
        return self.on_parts(arrays, None)

    def on_parts(
        self, arrays: Sequence[Tensor], across: AcrossDevices | None
    ) -> tuple[Tensor, Tensor]:
        """Rows and cells, from the parts that this device has, then the flag if there is one.

        `across` merges the results of all devices; None if this one has everything.
        """
        plain = [i for i, axis in enumerate(self.units) if axis is None]
        units = [i for i, axis in enumerate(self.units) if axis is not None]
        packed = jax_local.summarize([arrays[i] for i in plain])
        sums, bounds = packed[:, :_ADDED], packed[:, _ADDED:] * _SIGNS
        if across is not None:
            is_counted = across.is_counted[np.array(plain, np.int32)][:, None]
            # Not by multiplication: a sum of squares may be infinite.
            sums = jnp.where(is_counted, sums, 0.0)
            bounds = jnp.where(is_counted, bounds, -np.inf)
        alive = [self._alive(i, arrays[i], across) for i in units]
        no_cells = jnp.zeros((len(self.counted), CELLS), jnp.float64)

        def merged(with_cells: bool) -> list[Tensor]:
            parts = [sums, *alive]
            if with_cells:
                parts.append(self._cells(arrays, across))
            if across is not None:
                parts = _added(parts, across.axes)
            return parts if with_cells else [*parts, no_cells]

        if self.counted and self.due is None:
            # The flag is the same everywhere, so all devices take the same branch.
            found = lax.cond(arrays[-1], lambda: merged(True), lambda: merged(False))
        else:
            found = merged(bool(self.counted and self.due))
        sums, *alive, cells = found
        if across is not None and plain:
            bounds = lax.pmax(bounds, across.axes)
        dead = [jax_local.summarize([(a == 0).astype(jnp.float32)]) for a in alive]
        rows = jnp.concatenate([jnp.concatenate([sums, bounds * _SIGNS], axis=1), *dead])
        return rows[np.argsort(np.array(plain + units))], cells.astype(jnp.int64)

    def _alive(self, i: int, part: Tensor, across: AcrossDevices | None) -> Tensor:
        """For each unit of the whole array, whether it is alive in this device's part."""
        axis = self.units[i]
        assert axis is not None
        alive = DeadUnits(part, axis).alive().astype(jnp.float64)
        if across is None or len(alive) == across.units[i]:
            return alive
        every = jnp.zeros((across.units[i],), jnp.float64)
        return lax.dynamic_update_slice(every, alive, (across.starts[i],))

    def _cells(self, arrays: Sequence[Tensor], across: AcrossDevices | None) -> Tensor:
        cells = jax_cells.count_cells([arrays[i] for i in self.counted]).astype(jnp.float64)
        if across is None:
            return cells
        return jnp.where(across.is_counted[np.array(self.counted)][:, None], cells, 0.0)


def _added(arrays: Sequence[Tensor], axes: str | tuple[str, ...]) -> list[Tensor]:
    """The arrays summed over all devices, in one all-reduce."""
    flat = lax.psum(jnp.concatenate([x.reshape(-1) for x in arrays]), axes)
    ends = np.cumsum([x.size for x in arrays])
    return [
        part.reshape(x.shape) for part, x in zip(jnp.split(flat, ends[:-1]), arrays, strict=True)
    ]
