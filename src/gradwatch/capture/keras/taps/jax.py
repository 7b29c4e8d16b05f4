"""Tapping JAX's arrays, inside or outside `jax.jit`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from gradwatch.capture.keras.taps import Passage


class JaxTap:
    """An identity whose forward and backward rules note what they are given.

    Under differentiation a layer sees tracers that cannot leave it. The rules
    see the values behind them.
    """

    def __init__(self) -> None:
        self._trace: Any = None

    def aside(self, function: Any) -> Any:
        return function

    def begin(self) -> None:
        self._trace = getattr(jnp.zeros(()), "_trace", None)

    def through(self, tensor: Any, passage: Passage) -> Any:
        if not isinstance(tensor, jax.Array):
            raise TypeError(f"a {type(tensor).__name__}")
        if jnp.issubdtype(tensor.dtype, jnp.complexfloating):
            raise TypeError(f"an array of dtype {tensor.dtype}")
        if _is_forward_mode(tensor):
            # Refused here, since JAX would do so only when it compiles the step.
            raise TypeError("arrays of a forward-mode differentiation")
        # Where nothing is differentiated, the rules are not run.
        passage.output = tensor
        is_inside = _kind(tensor) == "DynamicJaxprTracer" and not self.can_leave(tensor)
        if is_inside or not jnp.issubdtype(tensor.dtype, jnp.floating):
            return tensor

        @jax.custom_vjp  # type: ignore[untyped-decorator]
        def identity(x: Any) -> Any:
            return x

        def forward(x: Any) -> Any:
            passage.output = x
            return x, None

        def backward(_: None, gradient: Any) -> Any:
            # Not by a call of ours, which might fail in the midst of the user's backward pass.
            passage.gradient = gradient
            passage.arrivals += 1
            return (gradient,)

        identity.defvjp(forward, backward)
        return identity(tensor)

    def can_leave(self, tensor: Any) -> bool:
        if not isinstance(tensor, jax.core.Tracer):
            return True
        # Not by trying: JAX finds an escaped tracer only when it compiles.
        return getattr(tensor, "_trace", tensor) is self._trace


def _kind(tensor: Any) -> str:
    return type(tensor).__name__ if isinstance(tensor, jax.core.Tracer) else ""


def _is_forward_mode(tensor: Any) -> bool:
    """Whether `jax.jvp` is under way, through which a rule for going back does not lead."""
    if _kind(tensor) == "BatchTracer":
        return _is_forward_mode(tensor.val)
    # Older versions of JAX go forward to find the way back.
    return _kind(tensor) == "JVPTracer" and _kind(tensor.tangent) != "JaxprTracer"
