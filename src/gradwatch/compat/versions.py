"""Which versions of frameworks are supported."""

import re
import sys
from importlib import import_module

LOWEST = {"keras": (3, 8), "tensorflow": (2, 18), "jax": (0, 5), "torch": (2, 5)}
"""The oldest version of each framework that the tests have run on, as in pyproject.toml."""

_TITLES = {"keras": "Keras", "tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}


class UnsupportedVersionError(ImportError):
    """A framework is installed in a version that gradwatch does not support."""


def numbers_of(version: str) -> tuple[int, ...]:
    """The first three numbers of a version.

    >>> numbers_of("0.12.0.1")
    (0, 12, 0)
    """
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def unsupported(name: str) -> str | None:
    """Why the imported version of a framework is not supported; None if it is.

    A version that cannot be read, as of a build from source, counts as supported.
    """
    lowest = LOWEST.get(name)
    version = getattr(sys.modules.get(name), "__version__", None)
    if lowest is None or not isinstance(version, str):
        return None
    numbers = numbers_of(version)
    if not numbers or numbers >= lowest:
        return None
    wanted = ".".join(map(str, lowest))
    return (
        f"gradwatch supports {_TITLES[name]} {wanted} and newer. Installed: {version}. "
        f'Upgrade it: pip install "{name}>={wanted}".'
    )


def require_supported(name: str) -> None:
    """Import a framework; UnsupportedVersionError if it is too old."""
    if name in LOWEST:
        import_module(name)
    reason = unsupported(name)
    if reason is not None:
        raise UnsupportedVersionError(reason)
