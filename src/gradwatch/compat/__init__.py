"""Which versions of frameworks are supported, and what older ones call otherwise.

`jax_names` and `keras_facts` are imported by those who have imported JAX, or Keras.
"""

from gradwatch.compat.versions import (
    LOWEST,
    UnsupportedVersionError,
    require_supported,
    unsupported,
)

__all__ = ["LOWEST", "UnsupportedVersionError", "require_supported", "unsupported"]
