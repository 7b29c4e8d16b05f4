"""The tap as a primitive of JAX: an identity with a name, which `hoisting` finds again.

Compiled, it is nothing. Its derivative is a tap, too, so that the backward pass has one where the
gradient passes. It is bound whether a step is watched or not, since JAX keeps what it has traced.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from gradwatch.capture.user_taps.tap_collector import numbers
from gradwatch.capture.user_taps.tap_state import STATE
from gradwatch.compat import jax_names
from gradwatch.core import Kind, Tensor

TAP = Primitive("gradwatch_tap")
_TANGENT = "tangent"
_VMAP = (
    "it is inside jax.vmap, where an array stands for many. Put the tap outside of the function "
    "that is mapped, on its arguments or results."
)


def tap_array(x: Tensor, name: str, stream: Tensor = None) -> Tensor:
    """The array, behind a tap of that name."""
    if not isinstance(x, jax.Array) or not jnp.issubdtype(x.dtype, jnp.floating):
        what = f"dtype={x.dtype}" if hasattr(x, "dtype") else type(x).__name__
        STATE.current.refuse(name, f"taps measure arrays of floats. Received: {what}")
        return x
    STATE.has_arrays = True
    STATE.current.bound.add(name)
    beside = () if stream is None else (jnp.asarray(stream),)
    result = TAP.bind(x, *beside, name=name, kind=str(Kind.OUTPUT), number=next(numbers))
    # Keras keeps masks with arrays.
    mask = getattr(x, "_keras_mask", None)
    if mask is not None:
        result._keras_mask = mask
    return result


def _jvp(primals: Any, tangents: Any, *, name: str, kind: str, number: int) -> Any:
    result = TAP.bind(*primals, name=name, kind=kind, number=number)
    tangent = tangents[0]
    if isinstance(tangent, ad.Zero):
        return result, tangent
    return result, TAP.bind(tangent, name=name, kind=_TANGENT, number=number)


def _transpose(cotangent: Any, _: Any, *, name: str, kind: str, number: int) -> Any:
    if isinstance(cotangent, ad.Zero):
        return [cotangent]
    return [TAP.bind(cotangent, name=name, kind=str(Kind.OUTPUT_GRADIENT), number=number)]


def _batch(arrays: Any, axes: Any, *, name: str, kind: str, number: int) -> Any:
    STATE.current.refuse(name, _VMAP)
    return arrays[0], axes[0]


TAP.def_impl(lambda x, *beside, **params: x)
TAP.def_abstract_eval(lambda x, *beside, **params: x)
mlir.register_lowering(TAP, lambda context, x, *beside, **params: [x])
ad.primitive_jvps[TAP] = _jvp
ad.primitive_transposes[TAP] = _transpose
batching.primitive_batchers[TAP] = _batch
jax_names.allow_in_shard_map(TAP)
