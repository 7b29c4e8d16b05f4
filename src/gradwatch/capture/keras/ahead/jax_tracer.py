"""Compiling a train function ahead of its call on JAX."""

from collections.abc import Callable, Hashable
from copy import copy
from typing import Any

import jax

from gradwatch.capture.keras.again.jax_rerunner import jitted_step
from gradwatch.capture.keras.ahead.tracer import Taken, Tracer
from gradwatch.compat.keras_facts import COMMITS_STATE


class JaxTracer(Tracer):
    """What is compiled here is found by the call: both share JAX's cache of lowered functions."""

    way = "jax"

    def __init__(self) -> None:
        self._kinds_of_state: list[Hashable] = []

    def has_compiled(self, function: Any) -> bool:
        return bool(jitted_step(function)._cache_size())

    def take(self, args: Any) -> Taken:
        state, batches = args
        return Taken(state, next(batches))

    def arguments(self, taken: Taken) -> Any:
        return taken.state, iter([taken.batch])

    def on_batch(self, function: Any, taken: Taken) -> Any:
        return function

    def kind_of(self, args: Any) -> Hashable:
        state, batch = _peeked(args)
        known = self._kinds_of_state
        # A state has hundreds of leaves. What a step returns is like what another step returns.
        if len(known) < 3 or known[-1] != known[-2]:
            known.append(_kinds(state))
        return known[-1], _kinds(batch)

    def trace(self, function: Any, args: Any) -> Callable[[], object]:
        state, batch = _peeked(args)
        if COMMITS_STATE:
            # When it is compiled, the first batch is over.
            state = jax.tree.map(lambda leaf: jax.device_put(leaf, leaf.sharding), state)
        # Lowering runs none of the user's code.
        traced = jitted_step(function).trace(state, batch)
        return lambda: traced.lower().compile()


def _peeked(args: Any) -> Any:
    state, batches = args
    return state, next(copy(batches))


def _kinds(tree: Any) -> Hashable:
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple(map(_kind, leaves))


def _kind(leaf: Any) -> Hashable:
    # The sharding, and whether it is the user's choice, are part of what is compiled.
    return (
        leaf.shape,
        leaf.dtype,
        getattr(leaf, "weak_type", False),
        COMMITS_STATE or getattr(leaf, "committed", False),
    )
