"""Differentiates with JAX."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp

from gradwatch.capture.keras.differentiate.differentiator import Compute


class JaxDifferentiator:
    """JAX has no state that could be disturbed."""

    def gradients(self, compute: Compute, values: list[Any], x: Any) -> tuple[Any, list[Any]]:
        leaves, structure = jax.tree.flatten(x)
        is_float = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]
        inputs = [leaf for leaf, yes in zip(leaves, is_float, strict=True) if yes]

        def loss(values: list[Any], inputs: list[Any]) -> Any:
            rest = iter(inputs)
            whole = [
                next(rest) if yes else leaf for leaf, yes in zip(leaves, is_float, strict=True)
            ]
            return compute(values, jax.tree.unflatten(structure, whole))

        value, (gradients, _) = jax.value_and_grad(loss, argnums=(0, 1))(values, inputs)
        return value, list(gradients)

    def run(self, step: Callable[[], dict[str, Any]], compiled: bool) -> dict[str, Any]:
        result: dict[str, Any] = jax.jit(step)() if compiled else step()
        return result

    def guarded(self, model: Any) -> AbstractContextManager[None]:
        return nullcontext()
