"""Which versions of frameworks are supported, and what older ones call otherwise.

`jax_names` is imported by those who have imported JAX.
"""

from gradwatch.compat.versions import (
    LOWEST,
    UnsupportedVersionError,
    require_supported,
    unsupported,
)

__all__ = ["LOWEST", "UnsupportedVersionError", "require_supported", "unsupported"]
