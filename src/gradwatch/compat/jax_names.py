"""What JAX has under other names in its versions from 0.5 on, or lacks there."""

from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.experimental
from jax import lax

try:
    from jax.extend.core import get_opaque_trace_state
except ImportError:  # before 0.10
    from jax.core import get_opaque_trace_state

__all__ = [
    "explicit_mesh",
    "get_opaque_trace_state",
    "manual_mesh",
    "vary",
    "varying",
    "wide_types",
]


def wide_types() -> AbstractContextManager[Any]:
    """Context in which arrays may have 64 bits."""
    found: AbstractContextManager[Any]
    if hasattr(jax, "enable_x64"):
        found = jax.enable_x64(True)
    else:
        found = jax.experimental.enable_x64()  # before 0.8
    return found


def manual_mesh() -> Any:
    """The mesh over whose axes the user has divided arrays by `shard_map`; None outside of it."""
    find = getattr(jax.sharding, "get_abstract_mesh", None)
    mesh: Any = find() if find is not None else None
    if hasattr(mesh, "manual_axes"):
        return mesh if mesh.manual_axes else None
    # Before 0.6 the types of arrays do not say along which axes they vary.
    axes = jax.core.unsafe_get_axis_names_DO_NOT_USE()
    if axes:
        raise NotImplementedError(
            f"Inside shard_map or another function over named axes ({', '.join(map(str, axes))}), "
            f"arrays are measured from JAX 0.6 on. Installed: {jax.__version__}. Return them, and "
            "measure outside."
        )
    return None


def explicit_mesh(array: Any) -> Any:
    """The mesh of an array whose type says how it is divided; None for other arrays."""
    if not hasattr(jax, "typeof"):
        return None  # before 0.6 only XLA divides arrays
    mesh = getattr(getattr(jax.typeof(array), "sharding", None), "mesh", None)
    return mesh if getattr(mesh, "explicit_axes", ()) else None


def varying(array: Any) -> frozenset[str]:
    """The axes of the mesh along which an array differs from device to device."""
    kind = jax.typeof(array)
    if hasattr(kind, "vma"):
        return frozenset(kind.vma)
    return frozenset(kind.manual_axis_type.varying)


def vary(array: Any, axes: tuple[str, ...]) -> Any:
    """The array, of a type that differs along these axes too."""
    if hasattr(lax, "pcast"):
        return lax.pcast(array, axes, to="varying")
    return lax.pvary(array, axes)  # before 0.8.2
