"""How a training step may be compiled, and which models are tried in which way."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import keras
import pytest

from gradwatch.compat.versions import numbers_of

BACKEND = keras.backend.backend()
WAYS = {
    "tensorflow": {"graph": {"jit_compile": False}, "xla": {"jit_compile": True}},
    "jax": {"op_by_op": {"jit_compile": False}, "xla": {"jit_compile": True}},
    # Compiling with torch takes a minute: it is tried on one model only.
    "torch": {"op_by_op": {"jit_compile": False}},
}[BACKEND]
EAGERLY = {"run_eagerly": True, "jit_compile": False}
ANY_BACKEND = pytest.mark.any_backend


def from_keras(*version: int, why: str, on: Collection[str] = (BACKEND,)) -> pytest.MarkDecorator:
    """Leaves a test out where an older Keras cannot do on these backends what the test needs."""
    is_old = numbers_of(keras.__version__) < version and BACKEND in on
    number = ".".join(map(str, version))
    return pytest.mark.skipif(is_old, reason=f"before {number}, Keras {why}")


KEEPS_VARIABLES = from_keras(3, 10, why="loses the variables of an interrupted fit", on=["jax"])


_USUAL = {"tensorflow": "graph", "jax": "xla", "torch": "op_by_op"}[BACKEND]


def usual_way_first() -> list[Any]:
    """All ways, also eagerly: the usual one in `make test`, the others in `make test-all`."""
    others = [way for way in (*WAYS, "eager") if way != _USUAL]
    return [_USUAL, *(pytest.param(way, marks=pytest.mark.slow) for way in others)]


def combinations(names: Sequence[str]) -> list[tuple[str, str]]:
    """Each model in every way with GRADWATCH_TESTS=full, else the ways by turns."""
    ways = list(WAYS)
    if os.environ.get("GRADWATCH_TESTS") == "full":
        return [(name, way) for name in names for way in ways]
    return [(name, ways[i % len(ways)]) for i, name in enumerate(names)]


# Models with which capturing goes a way of its own on some backend: states that are no weights,
# sparse and missing gradients, models that are built late, layers that are called twice.
OWN_WAYS = (
    "sequential_mlp",
    "sequential_cnn_with_batch_norm",
    "subclassed_unbuilt_before_fit",
    "layer_used_twice",
    "embedding_with_repeated_indices_and_mask",
    "frozen_layers",
    "weight_that_the_loss_does_not_touch",
    "lstm",
    "dropout_and_gaussian_noise",
    "sample_weight",
)


def mostly_on_torch(values: Iterable[Any], everywhere: Collection[Any]) -> list[Any]:
    """Parameters of which only `everywhere` is tried on each backend, and the others on torch.

    One of several parameters at a time counts by its first.
    """
    return [
        given
        if (name := given[0] if isinstance(given, tuple) else given) in everywhere
        else pytest.param(*(given if isinstance(given, tuple) else (name,)), marks=ANY_BACKEND)
        for given in values
    ]
