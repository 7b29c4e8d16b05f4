"""The bits of JAX arrays.

XLA takes a denormal for 0 in a comparison, so zeros are recognised by their bits; and by the carry
of a sum, because its compiler turns a test of the bits back into such a comparison.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwatch.core import Tensor
from gradwatch.measure.kernels.float_bits import FLOAT32_BITS, FLOAT64_BITS, FloatBits


def require_real(x: Tensor) -> None:
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError(f"Complex tensors cannot be summarised. Received: dtype={x.dtype}")


def widen(x: Tensor) -> Tensor:
    """float32 for the narrower floats, which is exact; float64 for whole numbers."""
    require_real(x)
    if jnp.issubdtype(x.dtype, jnp.floating):
        return x if x.dtype == jnp.float64 else x.astype(jnp.float32)
    return x.astype(jnp.float64)


def bits_of(x: Tensor) -> tuple[Tensor, FloatBits]:
    """The bits of a float32 or float64 array as integers, and what they mean."""
    form = FLOAT64_BITS if x.dtype == jnp.float64 else FLOAT32_BITS
    return lax.bitcast_convert_type(x, jnp.dtype(form.integer)), form


def nonzero(x: Tensor) -> Tensor:
    """1 for each element that is not 0, else 0; of float32."""
    return lax.shift_right_logical(_carry(x), np.int32(31))


def is_zero(x: Tensor) -> Tensor:
    return _carry(x) >= 0


def _carry(x: Tensor) -> Tensor:
    bits, form = bits_of(x)
    magnitude = np.asarray(form.magnitude, bits.dtype)
    return (bits & magnitude) + magnitude
