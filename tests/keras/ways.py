"""How a training step may be compiled, and which models are tried in which way."""

from __future__ import annotations

import os
from collections.abc import Sequence

import keras

BACKEND = keras.backend.backend()
WAYS = {
    "tensorflow": {"graph": {"jit_compile": False}, "xla": {"jit_compile": True}},
    "jax": {"op_by_op": {"jit_compile": False}, "xla": {"jit_compile": True}},
    # Compiling with torch takes a minute: it is tried on one model only.
    "torch": {"op_by_op": {"jit_compile": False}},
}[BACKEND]
EAGERLY = {"run_eagerly": True, "jit_compile": False}


def combinations(names: Sequence[str]) -> list[tuple[str, str]]:
    """Each model in every way with GRADWATCH_TESTS=full, else the ways by turns."""
    ways = list(WAYS)
    if os.environ.get("GRADWATCH_TESTS") == "full":
        return [(name, way) for name in names for way in ways]
    return [(name, ways[i % len(ways)]) for i, name in enumerate(names)]
