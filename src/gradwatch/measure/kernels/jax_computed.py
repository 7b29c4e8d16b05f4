"""What is computed of gradients and moments, by the name of what it is computed of."""

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp

from gradwatch.core import Tensor


@dataclass(frozen=True, eq=False)
class Normalized:
    """gradient * sqrt(correction) / max(sqrt(second), floor)"""

    gradient: Tensor
    second: Tensor
    correction: Any
    floor: Any

    def value(self) -> Tensor:
        scaled = _wide(self.gradient) * self.correction**0.5
        return scaled / jnp.maximum(root_of(self.second), self.floor)


@dataclass(frozen=True, eq=False)
class Below:
    """For each element 1.0 if sqrt(second) is below the floor, else 0.0."""

    second: Tensor
    floor: Any

    def value(self) -> Tensor:
        return (root_of(self.second) < self.floor).astype(jnp.float32)


@dataclass(frozen=True, eq=False)
class Cosine:
    """Of the angle between two tensors, times a sign; 0 if one of them is zero."""

    gradient: Tensor
    first: Tensor
    sign: float = 1.0

    def __neg__(self) -> "Cosine":
        return replace(self, sign=-self.sign)

    def value(self) -> Tensor:
        (a, largest_a), (b, largest_b) = _scaled(self.gradient), _scaled(self.first)
        norms = jnp.sqrt(jnp.sum(a * a) * jnp.sum(b * b))
        is_zero = (largest_a == 0) | (largest_b == 0)
        cosine = jnp.sum(a * b) / jnp.where(is_zero, 1.0, norms)
        return self.sign * jnp.where(is_zero, 0.0, cosine)


Computed = Normalized | Below | Cosine


def value_of(x: Any) -> Any:
    """The tensor itself, computed if it is not there yet."""
    return x.value() if isinstance(x, Computed) else x


def _scaled(x: Tensor) -> tuple[Tensor, Tensor]:
    """With 1 as the largest magnitude, so that no square overflows or underflows."""
    x = _wide(x)
    largest = jnp.max(jnp.abs(x), initial=0.0)
    return x / jnp.where(largest == 0, 1.0, largest), largest


def root_of(x: Tensor) -> Tensor:
    return jnp.sqrt(jnp.maximum(_wide(x), 0))


def _wide(x: Tensor) -> Tensor:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))
