"""Measures what passes the taps in a traced JAX function, and carries it out of its loops.

The function has been traced and differentiated already. It is run again, equation by equation, with
a summary at each tap. Where taps are inside a `scan`, a branch or a rematerialised part, that is
rebuilt to return the summaries, too: a scan stacks them, one row for each iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend import core

from gradwatch.capture.user_taps.routing import has_gradient, recorded
from gradwatch.capture.user_taps.tap_primitive import TAP
from gradwatch.compat import jax_names
from gradwatch.core import IDENTITY, Kind
from gradwatch.measure import framework

_KINDS = {str(kind): kind for kind in (Kind.OUTPUT, Kind.OUTPUT_GRADIENT)}
_CALLS = ("jit", "pjit", "closed_call", "core_closed_call")
_REMAT = ("remat2", "checkpoint", "remat")


class Place(NamedTuple):
    """A tap in a traced function; `number` is the same for a tensor and its gradient."""

    kind: Kind
    name: str
    number: int
    iterations: tuple[int, ...] = ()


Found = list[tuple[Place, Any]]
"""Places with their packed summaries, in the order of the function."""


class Hoisting:
    """Runs traced functions, and finds what passes their taps.

    `refuse` is told the name of each tap from which nothing can be carried out, and why.
    """

    def __init__(self, refuse: Callable[[str, str], None]) -> None:
        self._refuse = refuse
        self._names: dict[int, tuple[Any, frozenset[str]]] = {}

    def run(self, traced: core.ClosedJaxpr, args: Sequence[Any]) -> tuple[list[Any], Found]:
        """The results, and the summaries."""
        found: Found = []
        outputs = self._run(traced.jaxpr, traced.consts, args, found, is_again=False)
        return outputs, found

    def _run(
        self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], found: Found, is_again: bool
    ) -> list[Any]:
        """`is_again` says that the forward pass is computed a second time here."""
        values: dict[Any, Any] = {}

        def read(variable: Any) -> Any:
            return variable.val if isinstance(variable, core.Literal) else values[variable]

        values.update(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, args, strict=True))
        for equation in jaxpr.eqns:
            inputs = [read(variable) for variable in equation.invars]
            outputs = self._equation(equation, inputs, found, is_again)
            values.update(zip(equation.outvars, outputs, strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def _equation(
        self, equation: Any, inputs: list[Any], found: Found, is_again: bool
    ) -> Sequence[Any]:
        params, name = equation.params, equation.primitive.name
        if equation.primitive is TAP:
            kind = _KINDS.get(params["kind"])
            if kind is not None and not (is_again and kind is Kind.OUTPUT):
                place = Place(kind, params["name"], params["number"])
                if kind is Kind.OUTPUT:
                    tensor = recorded(framework("jax"), inputs[0], place.name, inputs[-1])
                    found.append((place, _summary(tensor)))
                elif has_gradient(place.name):
                    found.append((place, _summary(inputs[0])))
            return inputs[:1]
        names = self._names_in(params)
        if not names:
            return _bind(equation, inputs)
        if name in _CALLS and _has_free_layout(params):
            inner = params.get("jaxpr") or params["call_jaxpr"]
            return self._run(inner.jaxpr, inner.consts, inputs, found, is_again)
        if name == "scan":
            return self._scan(equation, inputs, found, is_again)
        if name == "cond":
            return self._cond(equation, inputs, found, is_again)
        if name in _REMAT:
            return self._remat(equation, inputs, found, is_again)
        for each in sorted(names):
            self._refuse(each, _why(name))
        return _bind(equation, inputs)

    def _scan(self, equation: Any, inputs: list[Any], found: Found, is_again: bool) -> list[Any]:
        params = equation.params
        body, places = self._rebuilt(params["jaxpr"], is_again)
        more = jax_names.longer_scan(params, len(places))
        outputs = _bind(equation, inputs, jaxpr=body, **more)
        count = len(outputs) - len(places)
        for place, rows in zip(places, outputs[count:], strict=True):
            iterations = (params["length"], *place.iterations)
            found.append((place._replace(iterations=iterations), rows))
        return list(outputs[:count])

    def _remat(self, equation: Any, inputs: list[Any], found: Found, is_again: bool) -> list[Any]:
        params = equation.params
        closed = core.ClosedJaxpr(params["jaxpr"], ())
        again = is_again or bool(params.get("differentiated"))
        body, places = self._rebuilt(closed, again)
        consts, opened = list(body.consts), _without_consts(body.jaxpr)
        more: dict[str, Any] = {"jaxpr": opened}
        if isinstance(params.get("prevent_cse"), tuple):
            more["prevent_cse"] = (False,) * len(consts) + params["prevent_cse"]
        outputs = _bind(equation, [*consts, *inputs], **more)
        count = len(outputs) - len(places)
        found += zip(places, outputs[count:], strict=True)
        return list(outputs[:count])

    def _cond(self, equation: Any, inputs: list[Any], found: Found, is_again: bool) -> list[Any]:
        """All branches return the rows of all; those of a branch that is not taken are empty."""
        branches = equation.params["branches"]
        traced = [self._rebuilt(branch, is_again) for branch in branches]
        shapes: dict[Place, Any] = {}
        for body, places in traced:
            avals = body.out_avals[len(body.out_avals) - len(places) :]
            shapes.update(zip(places, avals, strict=True))
        rebuilt = []
        for branch, (body, places) in zip(branches, traced, strict=True):
            count = len(branch.out_avals)

            def run(*args: Any, body: Any = body, places: Any = places, count: int = count) -> Any:
                outputs = core.jaxpr_as_fun(body)(*args)
                own = dict(zip(places, outputs[count:], strict=True))
                rows = [own[p] if p in own else _empty(shapes[p].shape, args) for p in shapes]
                return [*outputs[:count], *rows]

            rebuilt.append(jax.make_jaxpr(run)(*_shapes_of(branch.in_avals)))
        consts_free = [core.ClosedJaxpr(b.jaxpr, b.consts) for b in rebuilt]
        outputs = _bind(equation, inputs, branches=tuple(consts_free))
        count = len(outputs) - len(shapes)
        found += zip(shapes, outputs[count:], strict=True)
        return list(outputs[:count])

    def _rebuilt(self, closed: Any, is_again: bool) -> tuple[Any, list[Place]]:
        """The same function with the summaries as further results, and what they are of."""
        places: list[Place] = []

        def run(*args: Any) -> list[Any]:
            found: Found = []
            outputs = self._run(closed.jaxpr, closed.consts, args, found, is_again)
            places[:] = [place for place, _ in found]
            return [*outputs, *[row for _, row in found]]

        return jax.make_jaxpr(run)(*_shapes_of(closed.in_avals)), places

    def _names_in(self, params: Any) -> frozenset[str]:
        """The names of the taps in the functions among these parameters."""
        names: frozenset[str] = frozenset()
        for value in params.values():
            for each in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(each, "jaxpr", each)
                if isinstance(inner, core.Jaxpr):
                    names |= self._names_of(inner)
        return names

    def _names_of(self, jaxpr: Any) -> frozenset[str]:
        if id(jaxpr) not in self._names:
            names: frozenset[str] = frozenset()
            for equation in jaxpr.eqns:
                if equation.primitive is not TAP:
                    names |= self._names_in(equation.params)
                elif equation.params["kind"] in _KINDS:
                    names |= {equation.params["name"]}
            self._names[id(jaxpr)] = jaxpr, names
        return self._names[id(jaxpr)][1]


def _bind(equation: Any, inputs: Sequence[Any], **changed: Any) -> Sequence[Any]:
    given = equation.primitive.get_bind_params({**equation.params, **changed})
    # Before JAX 0.10 it also returns functions.
    functions, params = given if isinstance(given, tuple) else ((), given)
    with equation.ctx.manager:
        result = equation.primitive.bind(*functions, *inputs, **params)
    return result if equation.primitive.multiple_results else [result]


def _summary(x: Any) -> Any:
    return framework("jax").measure_one(x)


@jax_names.in_wide_types
def _empty(shape: tuple[int, ...], beside: Sequence[Any]) -> Any:
    """The summary of nothing; the arrays beside it are only there to be traced."""
    return jnp.broadcast_to(jnp.asarray(IDENTITY), shape)


def _shapes_of(avals: Sequence[Any]) -> list[Any]:
    return [
        jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=getattr(a, "weak_type", False))
        for a in avals
    ]


def _without_consts(jaxpr: Any) -> Any:
    """The constants of a traced function as its first arguments."""
    return jaxpr.replace(
        constvars=[],
        invars=[*jaxpr.constvars, *jaxpr.invars],
        debug_info=jax_names.without_names(jaxpr.debug_info),
    )


def _has_free_layout(params: Any) -> bool:
    """Whether a call leaves it to the compiler how its arrays are laid out over devices."""
    layouts = (*params.get("in_shardings", ()), *params.get("out_shardings", ()))
    return all(type(each).__name__ == "UnspecifiedValue" for each in layouts)


def _why(primitive: str) -> str:
    if primitive == "while":
        return (
            "it is inside a while loop, whose number of iterations is not known. Put the tap "
            "behind the loop, or use jax.lax.scan."
        )
    if primitive in _CALLS:
        return (
            "it is inside a function jitted with shardings of its own. Put with_taps inside of "
            "that function."
        )
    return (
        f"it is inside of {primitive!r}, which no value can be carried out of. Put the tap outside."
    )
