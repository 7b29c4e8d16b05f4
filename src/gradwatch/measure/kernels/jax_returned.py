"""Tensors that a compiled step of JAX returns as they are, and what NumPy measures of them.

Each array that a step returns costs microseconds at each step, so small ones leave it together, in
groups: to copy more of them at once takes longer to compile.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from numpy.typing import NDArray

from gradwatch.core import Tensor
from gradwatch.measure.host_work import HostWork
from gradwatch.measure.kernels import numpy_rows
from gradwatch.measure.kernels.jax_bits import require_real

TOGETHER, SMALL = 64, 1 << 14
"""So many tensors leave a step as one array, of at most so many elements each."""


@dataclass(frozen=True, eq=False)
class Later:
    """A tensor that is computed of others, on the host; of NumPy or traced arrays alike."""

    compute: Callable[..., Tensor]
    given: tuple[Tensor, ...]
    settings: tuple[Any, ...] = ()

    def value(self) -> Tensor:
        return self.compute(*self.given, *self.settings)

    def __getitem__(self, index: Any) -> "Later":
        """Of what is computed element by element."""
        return Later(self.compute, tuple(x[index] for x in self.given), self.settings)


class _Place(NamedTuple):
    """Where a tensor is in the arrays that a step returns."""

    array: int
    start: int
    shape: tuple[int, ...]
    size: int

    def cut(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return arrays[self.array][self.start : self.start + self.size].reshape(self.shape)


class _Measured(NamedTuple):
    """How one of the measured tensors comes from the places of others, on the host."""

    places: tuple[_Place, ...]
    compute: Callable[..., Any] | None = None
    settings: tuple[Any, ...] = ()

    def found(self, arrays: Sequence[NDArray[Any]]) -> Any:
        given = [place.cut(arrays) for place in self.places]
        return self.compute(*given, *self.settings) if self.compute else given[0]


@partial(
    jax.tree_util.register_dataclass, data_fields=["arrays"], meta_fields=["tensors", "nbytes"]
)
@dataclass(frozen=True)
class HostRows:
    """Stands for the summaries of tensors, which are in arrays of so many bytes."""

    arrays: Sequence[Tensor]
    tensors: tuple[_Measured | None, ...]
    nbytes: int

    @classmethod
    def of(cls, tensors: Sequence[Tensor | Later | None]) -> "HostRows":
        given = {id(x): x for each in tensors if each is not None for x in _given(each)}
        for x in given.values():
            require_real(x)
        # Without the barrier XLA may compute them again where they are copied.
        flat = lax.optimization_barrier([x.reshape(-1) for x in given.values()])
        known = dict(zip(given, flat, strict=True))
        arrays: list[Tensor] = []
        places: dict[int, _Place] = {}
        for group in _groups(known):
            start = 0
            for key in group:
                x = given[key]
                places[key] = _Place(len(arrays), start, tuple(x.shape), x.size)
                start += x.size
            arrays.append(lax.concatenate([known[key] for key in group], 0))

        def how(x: Tensor | Later | None) -> _Measured | None:
            if x is None:
                return None
            found = tuple(places[id(each)] for each in _given(x))
            return (
                _Measured(found, x.compute, x.settings)
                if isinstance(x, Later)
                else _Measured(found)
            )

        size = sum(x.size * x.dtype.itemsize for x in arrays)
        return cls(arrays, tuple(map(how, tensors)), size)


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["counted"])
@dataclass(frozen=True)
class HostCells:
    """Stands for the histogram cells of the tensors at some positions."""

    counted: tuple[int, ...]


def host_work(measured: Mapping[str, Any], names: Sequence[str]) -> HostWork:
    """What measures the tensors of a step that has returned them as they are."""
    arrays, known = measured["rows"].arrays, measured["rows"].tensors
    cells = measured["cells"] if "cells" in names else None
    others = {name: measured[name] for name in names if name not in ("rows", "cells")}

    def wait() -> Any:
        return [np.asarray(x) for x in arrays], {k: np.asarray(x) for k, x in others.items()}

    def measure(arrived: Any) -> dict[str, Any]:
        on_host, found = arrived
        tensors = [None if x is None else x.found(on_host) for x in known]
        found["rows"] = numpy_rows.summarize(tensors)
        if cells is not None:
            found["cells"] = numpy_rows.count_cells([tensors[i] for i in cells.counted])
        return dict(found)

    return HostWork(measured["rows"].nbytes, wait, measure)


def _given(x: Tensor | Later) -> tuple[Tensor, ...]:
    return x.given if isinstance(x, Later) else (x,)


def _groups(flat: Mapping[int, Tensor]) -> list[list[int]]:
    """The keys of the tensors of each array: small ones of one type together."""
    by_type: dict[Any, list[int]] = {}
    for key, x in flat.items():
        by_type.setdefault((x.dtype, key if x.size > SMALL else None), []).append(key)
    return [
        keys[i : i + TOGETHER] for keys in by_type.values() for i in range(0, len(keys), TOGETHER)
    ]
