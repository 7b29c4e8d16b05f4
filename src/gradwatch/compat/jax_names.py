"""What JAX has under other names in its versions from 0.5 on, or lacks there."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, TypeVar, cast

import jax
import jax.experimental
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

try:
    from jax.extend.core import get_opaque_trace_state
except ImportError:  # before 0.10
    from jax.core import get_opaque_trace_state

__all__ = [
    "allow_in_shard_map",
    "before_widening",
    "explicit_mesh",
    "get_opaque_trace_state",
    "in_wide_types",
    "longer_scan",
    "manual_mesh",
    "vary",
    "varying",
    "wide_types",
    "without_names",
]


F = TypeVar("F", bound=Callable[..., Any])

_LOWERS_BY_TYPE = jax.__version_info__ >= (0, 7, 1)
"""Whether what was traced with 64 bits is lowered so. Before, constants are lowered to what is
enabled then: a step that is compiled outside of `wide_types` has them in 32 bits, and fails."""

_wide = Primitive("gradwatch_in_wide_types")
"""A function that is both traced and lowered with 64 bits."""
_wide.multiple_results = True


def wide_types() -> AbstractContextManager[Any]:
    """Context in which arrays may have 64 bits."""
    # `jax.enable_x64` has no truth value, so no `or`. Before 0.8 it was experimental.
    place: Any = jax if hasattr(jax, "enable_x64") else jax.experimental
    return cast("AbstractContextManager[Any]", place.enable_x64(True))


def in_wide_types(function: F) -> F:
    """Decorator: in the function arrays may have 64 bits. Its arguments are trees."""

    @wraps(function)
    def wide(*args: Any) -> Any:
        leaves, structure = jax.tree.flatten(args)
        traced = [i for i, x in enumerate(leaves) if isinstance(x, jax.core.Tracer)]
        if _LOWERS_BY_TYPE or not traced or jax.config.jax_enable_x64:
            with wide_types():
                return function(*args)
        results: list[Any] = []

        def of_traced(*arrays: Any) -> list[Any]:
            given = dict(zip(traced, arrays, strict=True))
            filled = [given.get(i, x) for i, x in enumerate(leaves)]
            with wide_types():
                found, tree = jax.tree.flatten(function(*structure.unflatten(filled)))
            results[:] = [tree]
            return list(found)

        # What is measured is not differentiated, even if the step is.
        found = _wide.bind(*(lax.stop_gradient(leaves[i]) for i in traced), function=of_traced)
        return results[0].unflatten(found)

    return cast(F, wide)


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


def before_widening(array: Any) -> Any:
    """The result of a product that was then widened to this array; else the array itself.

    Both have the same values, and the narrow one is in memory anyway. That is only sure of products
    and scatters: of other operations XLA may keep the digits that narrowing takes away.
    """
    name, narrow = _origin(array)
    if name != "convert_element_type" or narrow is None:
        return array
    is_widened = jax.numpy.promote_types(narrow.dtype, array.dtype) == array.dtype
    name, source = _origin(narrow)
    while name in ("transpose", "reshape", "squeeze"):
        name, source = _origin(source)
    is_product = name in ("dot_general", "conv_general_dilated", "scatter-add")
    return narrow if is_widened and is_product else array


def _origin(array: Any) -> tuple[str, Any]:
    """The operation that a traced array is a result of, and the first operand; "" if unknown."""
    # Of private classes, so that nothing is taken for granted.
    try:
        equation = array.parent
        name = str(equation.primitive.name)
        if name in ("jit", "pjit"):
            inner = equation.params["jaxpr"].jaxpr
            result = inner.outvars[equation.outvars.index(array.val)]
            (name,) = (str(e.primitive.name) for e in inner.eqns if result in e.outvars)
            # Of a function, only the result's own operation is looked at.
            return ("" if name in ("transpose", "reshape", "squeeze") else name), None
        return name, equation.in_tracers[0]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return "", None


def allow_in_shard_map(primitive: Any) -> None:
    """Let a primitive that works on each element stand inside `shard_map`."""
    if not hasattr(jax, "typeof"):  # before 0.6 each primitive needs a rule there
        from jax.experimental import shard_map

        shard_map.register_standard_check(primitive)
        shard_map.register_standard_rewrite(primitive)


def without_names(debug_info: Any) -> Any:
    """What is known of a traced function, for one with other arguments."""
    # Before 0.7 it has no such method, and may be left out.
    anonymous = getattr(debug_info, "with_unknown_names", None)
    return None if anonymous is None else anonymous()


def _run(*arrays: Any, function: Callable[..., list[Any]]) -> list[Any]:
    return function(*arrays)


def _types(*arrays: Any, function: Callable[..., list[Any]]) -> list[Any]:
    with wide_types():
        return [jax.core.ShapedArray(x.shape, x.dtype) for x in jax.eval_shape(function, *arrays)]


def _lower(context: Any, *arrays: Any, function: Callable[..., list[Any]]) -> Any:
    with wide_types():
        return mlir.lower_fun(function, multiple_results=True)(context, *arrays)


def _batch(arrays: Any, axes: Any, *, function: Callable[..., list[Any]]) -> Any:
    def of_all(*batch: Any) -> list[Any]:
        with wide_types():
            return list(jax.vmap(function, in_axes=axes)(*batch))

    found = _wide.bind(*arrays, function=of_all)
    return found, [0] * len(found)


_wide.def_impl(_run)
_wide.def_abstract_eval(_types)
mlir.register_lowering(_wide, _lower)
batching.primitive_batchers[_wide] = _batch


def longer_scan(params: Mapping[str, Any], count: int) -> dict[str, Any]:
    """What differs in the parameters of a scan that stacks so many results more."""
    if "ft_out" not in params:  # before 0.11
        return {}
    from jax._src import flattree

    carry, stacked = params["ft_out"].unpack()
    return {"ft_out": flattree.pack((carry, (stacked, flattree.nones(count))))}
