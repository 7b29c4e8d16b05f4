"""Runs a JAX function with taps."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from gradwatch.capture.user_taps.hoisting import Found, Hoisting, Place
from gradwatch.capture.user_taps.routing import kind_of
from gradwatch.capture.user_taps.tap_collector import TapCollector
from gradwatch.capture.user_taps.tap_rows import (
    MOST_ITERATIONS,
    TapMark,
    TapRows,
    twice_used,
)
from gradwatch.capture.user_taps.tap_state import STATE
from gradwatch.compat import jax_names
from gradwatch.core import FIELDS, Kind

_RUNNING = "carrying values of taps out of a function"


def call_traced(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, TapRows]:
    """The result of a function, and what has passed its taps. It is traced once."""
    if _has_mutable((args, kwargs)):
        return function(*args, **kwargs), TapRows(
            notices=[
                "Taps are not recorded in functions of flax.nnx modules, which change in place. "
                "Split the module: graphdef, state = nnx.split(model); differentiate a function "
                "of the state that calls nnx.merge(graphdef, state)."
            ]
        )
    # Arrays of NumPy stay what they are: the function may read their values.
    leaves, tree = jax.tree.flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
    arrays = [leaves[i] for i in places]
    returned: list[Any] = []

    def run(*arrays: Any) -> list[Any]:
        given = list(leaves)
        for i, array in zip(places, arrays, strict=True):
            given[i] = array
        own_args, own_kwargs = jax.tree.unflatten(tree, given)
        returned[:] = jax.tree.flatten(function(*own_args, **own_kwargs))
        return [leaf for leaf in returned[0] if isinstance(leaf, jax.Array)]

    collector = TapCollector()
    with STATE.collecting(collector):
        traced = jax.make_jaxpr(run)(*arrays)
    try:
        outputs, found = Hoisting(collector.refuse).run(traced, arrays)
    except Exception as error:
        # The taps themselves are nothing.
        outputs, found = core.jaxpr_as_fun(traced)(*arrays), []
        collector.reporter.internal_error(error, _RUNNING, "taps of that function")
    rest = iter(outputs)
    results = [next(rest) if isinstance(x, jax.Array) else x for x in returned[0]]
    return jax.tree.unflatten(returned[1], results), _rows(found, collector)


def _rows(found: Found, collector: TapCollector) -> TapRows:
    try:
        for name in sorted(collector.bound - {place.name for place, _ in found}):
            if not collector.is_refused(name):
                collector.refuse(name, "what it returns is not used, so that JAX leaves it out.")
        parts = _parts(found, collector)
    except Exception as error:
        collector.reporter.internal_error(error, _RUNNING, "taps of that function")
        parts = []
    return TapRows(parts, collector.take().notices)


def _parts(found: Found, collector: TapCollector) -> list[tuple[list[TapMark], Any]]:
    """Outputs in their order, each followed by its gradient."""
    gradients: dict[tuple[str, int], list[tuple[Place, Any]]] = {}
    for place, rows in found:
        if place.kind is Kind.OUTPUT_GRADIENT:
            gradients.setdefault((place.name, place.number), []).append((place, rows))
    outputs = [(place, rows) for place, rows in found if place.kind is Kind.OUTPUT]
    uses = Counter((place.name, place.number) for place, _ in outputs)
    calls: Counter[str] = Counter()
    parts = []
    for place, rows in outputs:
        calls[place.name] += 1
        call = calls[place.name]
        if call == 2:
            collector.reporter.notice(twice_used(place.name))
        parts.append(_part(place, rows, call))
        own = gradients.get((place.name, place.number), [])
        if len(own) == uses[place.name, place.number]:
            # A function that is traced once and called twice: the backward pass begins at the end.
            parts.append(_part(*own.pop(), call))
            uses[place.name, place.number] -= 1
        elif own:
            collector.reporter.notice(
                f"Gradients of the tap {place.name!r} are not recorded: it is passed several "
                "times, and not every tensor has one gradient."
            )
    for own in gradients.values():
        parts += [
            _part(place, rows, 1) for place, rows in own if not uses[place.name, place.number]
        ]
    return parts


def _part(place: Place, rows: Any, call: int) -> tuple[list[TapMark], Any]:
    iterations = place.iterations
    if np.prod(iterations, dtype=int) > MOST_ITERATIONS:
        iterations, rows = (), _merged(rows)
    kind = kind_of(place.name) if place.kind is Kind.OUTPUT else place.kind
    return [TapMark(kind, place.name, call, iterations)], rows


@jax_names.in_wide_types
def _merged(rows: Any) -> Any:
    """The summary of all tensors together."""
    flat = rows.reshape(-1, len(FIELDS))
    low, high = FIELDS.index("min"), FIELDS.index("max")
    total = flat.sum(0)
    return total.at[low].set(flat[:, low].min()).at[high].set(flat[:, high].max())


def _has_mutable(given: Any) -> bool:
    nnx: Any = sys.modules.get("flax.nnx")
    if nnx is None:
        return False
    found = jax.tree.leaves(given, is_leaf=lambda x: isinstance(x, nnx.Module))
    return any(isinstance(x, nnx.Module) for x in found)


def _flatten(rows: TapRows) -> tuple[list[Any], Any]:
    marks = tuple(tuple(marks) for marks, _ in rows.parts)
    return rows.arrays, (marks, tuple(rows.notices))


def _unflatten(known: Any, arrays: Any) -> TapRows:
    marks, notices = known
    return TapRows(list(zip(marks, arrays, strict=True)), notices)


# So that it can leave jax.jit.
jax.tree_util.register_pytree_node(TapRows, _flatten, _unflatten)
