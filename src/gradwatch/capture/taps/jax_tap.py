"""Reads JAX arrays, inside or outside `jax.jit`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

from gradwatch.capture.taps.passage import Passage


class JaxTap:
    """Notes the values behind arrays; an identity with a backward rule notes gradients.

    Under differentiation a layer sees tracers that cannot leave it. `stop_gradient` gives the
    value behind one. Only where a gradient is wanted is the identity put behind the layer.
    """

    def __init__(self, through_vmap: bool = False) -> None:
        self._trace: Any = None
        self._through_vmap = through_vmap
        """Whether what is computed for each sample under `jax.vmap` is noted as one array."""

    def aside(self, function: Any) -> Any:
        return function

    @contextmanager
    def watching(self) -> Iterator[None]:
        self._trace = getattr(jnp.zeros(()), "_trace", None)
        yield

    def through(self, tensor: Any, passage: Passage) -> Any:
        if not isinstance(tensor, jax.Array):
            raise TypeError(f"a {type(tensor).__name__}")
        if jnp.issubdtype(tensor.dtype, jnp.complexfloating):
            raise TypeError(f"an array of dtype {tensor.dtype}")
        if _is_forward_mode(tensor):
            # The identity has no forward rule, and JAX would say so only when it compiles.
            raise TypeError("arrays of a forward-mode differentiation")
        passage.output = self.outermost(jax.lax.stop_gradient(tensor))
        is_inside = _kind(tensor) == "DynamicJaxprTracer" and not self.can_leave(tensor)
        if is_inside or not jnp.issubdtype(tensor.dtype, jnp.floating):
            return tensor
        if not passage.wants_gradient:
            return tensor

        @jax.custom_vjp  # type: ignore[untyped-decorator]
        def identity(x: Any) -> Any:
            return x

        def forward(x: Any) -> Any:
            return x, None

        def backward(_: None, gradient: Any) -> Any:
            # No call of gradwatch: it might fail in the midst of the user's backward pass.
            passage.gradient = gradient
            passage.arrivals += 1
            return (gradient,)

        identity.defvjp(forward, backward)
        return identity(tensor)

    def outermost(self, tensor: Any) -> Any:
        """The array of all samples, if the tensor is that of one under `jax.vmap`."""
        while self._through_vmap and _kind(tensor) == "BatchTracer":
            axis, tensor = tensor.batch_dim, tensor.val
            if axis is not None:
                tensor = jnp.moveaxis(tensor, axis, 0)
            tensor = jax.lax.stop_gradient(tensor)
        return tensor

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
