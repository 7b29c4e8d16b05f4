"""The versions and the machine that a run was made with."""

import platform
import sys
from functools import cache


def describe() -> dict[str, str]:
    """The versions of Python, gradwatch and the frameworks in use, and the machine."""
    facts = {"python": platform.python_version(), "machine": platform.platform()}
    for package, distributions in {
        "gradwatch": ("gradwatch",),
        "numpy": ("numpy",),
        "keras": ("keras",),
        "tensorflow": ("tensorflow", "tensorflow-cpu"),
        "jax": ("jax",),
        "torch": ("torch",),
    }.items():
        if package in sys.modules:
            facts[package] = next(filter(None, map(_version, distributions)), "unknown")
    if "keras" in sys.modules:
        facts["keras backend"] = sys.modules["keras"].backend.backend()
    return facts


def own_version() -> str:
    """The version of gradwatch."""
    return str(sys.modules["gradwatch"].__version__)


@cache
def _version(distribution: str) -> str | None:
    # Imported here: it takes as long as all of gradwatch together.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
