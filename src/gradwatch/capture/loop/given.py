"""What the user gave to `record` or `measure`: checked, named and in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from gradwatch.capture.errors import WrongPlaceError, WrongTypeError, WrongValueError
from gradwatch.capture.gates import slices_of
from gradwatch.capture.loop.inputs_and_targets import as_floats, batch_infos, batch_tensors
from gradwatch.capture.loop.layer_tensors import Found, LayerTensors, layer_tensors
from gradwatch.capture.loop.shapes import common_framework, shape_of, shapes_agree
from gradwatch.capture.loop.trees import leaves
from gradwatch.capture.loop.variable_names import (
    Named,
    Variables,
    dtype_name,
    is_tensor,
    value_of,
    variables_of,
)
from gradwatch.core import Kind, Site, SiteInfo, scope
from gradwatch.measure import Framework, family, framework


@dataclass(frozen=True)
class Given:
    """The tensors of a call, by site, in network order.

    Attributes:
        framework: to which they belong.
        tensors: what to measure; None for a gradient that does not exist.
        infos: the sites with all that a selector may ask.
        updates: for sites of kind `update`, the values (after, before).
        slices: of sites that are a part of another's tensor, the site and the columns.
        of_layers: of sites that are a layer's, what was found there in the step.
        is_traced: whether they stand for values in a function being compiled.
    """

    framework: Framework
    tensors: Mapping[Site, Any]
    infos: Sequence[SiteInfo]
    updates: Mapping[Site, tuple[Any, Any]] = field(default_factory=dict)
    is_traced: bool = False
    slices: Mapping[Site, tuple[Site, tuple[int, int]]] = field(default_factory=dict)
    of_layers: Mapping[Site, Sequence[Found]] = field(default_factory=dict)

    def rows(self, sites: Sequence[Site]) -> Iterator[tuple[int, Found]]:
        """What is measured at the sites, with the position of each among them.

        One tensor a site, but for layers: those called twice have two, or none.
        """
        for i, site in enumerate(sites):
            if site.kind.is_of_layer:
                yield from ((i, found) for found in self.of_layers.get(site, ()))
            else:
                yield i, Found(site, partial(self.tensor, site))

    def beside(self, layers: LayerTensors) -> Given:
        """These tensors and those of layers."""
        is_traced = self.is_traced or any(map(self.framework.is_traced, layers.tensors))
        infos = [*self.infos, *layers.infos]
        return replace(self, infos=infos, of_layers=layers.found, is_traced=is_traced)

    def with_batch(self, batch: Mapping[Site, Any]) -> Given:
        """These tensors and what the step was given."""
        if not batch:
            return self
        return replace(
            self,
            tensors={**self.tensors, **batch},
            infos=[*batch_infos(batch), *self.infos],
            is_traced=self.is_traced or any(map(self.framework.is_traced, batch.values())),
        )

    def tensor(self, site: Site) -> Any:
        """The tensor to measure at a site."""
        if site.kind.is_of_batch:
            return as_floats(self.tensors[site], self.framework)
        if site in self.slices:
            whole, (start, stop) = self.slices[site]
            x = self.tensor(whole)
            return None if x is None else x[..., start:stop]
        if site in self.updates:
            return self.framework.difference(*self.updates[site])
        return self.tensors[site]


def understand(
    *,
    gradients: Any = None,
    variables: Any = None,
    previous: Any = None,
    applied_gradients: Any = None,
    names: Any = None,
    outputs: Any = None,
    output_gradients: Any = None,
    inputs: Any = None,
    targets: Any = None,
    group: str = "",
    micro_batch: int | None = None,
) -> Given:
    """Find out what is what.

    Raises:
        TypeError, ValueError: it does not fit together; the message says how.
    """
    prefix = scope(group, micro_batch)
    layers = layer_tensors(outputs, output_gradients, prefix)
    batch = batch_tensors(inputs, targets, prefix)
    gradients, applied_gradients, previous = map(_listed, (gradients, applied_gradients, previous))
    if gradients is not None or variables is not None:
        known = variables_of(gradients if variables is None else variables, names)
    elif outputs is not None or output_gradients is not None or batch:
        known = Variables([], [], {})
    else:
        raise WrongTypeError(
            "There is nothing to measure. Give gradients= and variables= (a list, a tree or "
            "a model), for example record(gradients=grads, variables=model.trainable_variables)."
        )
    by_kind: dict[Kind, list[Any]] = {}
    if gradients is not None:
        by_kind[Kind.GRADIENT] = _aligned("gradients", gradients, known)
    elif variables is not None and _is_torch(known):
        by_kind[Kind.GRADIENT] = [n.value.grad if n.trainable else ABSENT for n in known.named]
    if applied_gradients is not None:
        by_kind[Kind.APPLIED_GRADIENT] = _aligned("applied_gradients", applied_gradients, known)
    if variables is not None and micro_batch is None:
        by_kind[Kind.WEIGHT] = [n.value for n in known.named]
    if previous is not None and micro_batch is None:
        if variables is None:
            raise WrongTypeError("previous= needs variables= beside it: an update is a difference.")
        by_kind[Kind.UPDATE] = _aligned("previous", previous, known)
    everything = [x for tensors in by_kind.values() for x in tensors if x is not ABSENT]
    own = common_framework([*everything, *layers.tensors, *batch.values()])
    return given_of(known.named, by_kind, own, prefix).beside(layers).with_batch(batch)


ABSENT = object()
"""In the place of a tensor that was not given at all, and has no site."""

_ORDER = (Kind.WEIGHT, Kind.GRADIENT, Kind.APPLIED_GRADIENT, Kind.UPDATE)


def given_of(
    named: Sequence[Named], by_kind: Mapping[Kind, list[Any]], own: Framework, prefix: str
) -> Given:
    """From the variables, and for each kind a tensor, None or `ABSENT` for each variable."""
    tensors: dict[Site, Any] = {}
    updates: dict[Site, tuple[Any, Any]] = {}
    slices: dict[Site, tuple[Site, tuple[int, int]]] = {}
    infos = []
    for i, variable in enumerate(named):
        if not is_tensor(variable.value):
            continue  # Of complex numbers, say.
        path = f"{prefix}/{variable.path}" if prefix else variable.path
        for kind in (k for k in _ORDER if k in by_kind and by_kind[k][i] is not ABSENT):
            site = Site(kind, path)
            tensors[site] = by_kind[kind][i]
            if kind is Kind.UPDATE:
                updates[site] = (variable.value, by_kind[kind][i])
            info = _info(site, variable)
            gates = slices_of(info)
            slices |= {gate.site: (site, gate.columns) for gate in gates if gate.columns}
            infos += [info, *gates]
    is_traced = any(own.is_traced(x) for x in tensors.values() if x is not None)
    if is_traced:
        _reject_stale(named, by_kind, own)
    return Given(own, tensors, infos, updates, is_traced, slices)


def _reject_stale(
    named: Sequence[Named], by_kind: Mapping[Kind, list[Any]], own: Framework
) -> None:
    """Keras variables in a JAX function hold the values of the time of tracing."""
    if own is not framework("jax") or Kind.WEIGHT not in by_kind:
        return
    for variable in named:
        if variable.is_keras and not own.is_traced(variable.value):
            raise WrongValueError(
                f"Inside jax.jit the Keras variable {variable.path!r} has the value it had when "
                "the function was compiled, not the step's own. Give the arrays that the step "
                "works on, and the variables for their names: measure(gradients=grads, "
                "parameters=trainable_values, names=model.trainable_variables)."
            )


def _info(site: Site, variable: Named) -> SiteInfo:
    return SiteInfo(
        site=site,
        shape=shape_of(variable.value),
        dtype=dtype_name(variable.value),
        part=variable.path.rpartition("/")[2],
        trainable=variable.trainable,
        layer_indices=variable.layer_indices,
        owners=variable.owners,
    )


def _aligned(what: str, given: Any, known: Variables) -> list[Any]:
    """The tensors in the order of `known.named`; ABSENT where there is none."""
    aligned: list[Any] = [ABSENT] * len(known.named)
    for where, position, value in _placed(what, given, known):
        variable = known.named[position]
        value = value_of(value)
        if value is not None and not hasattr(value, "shape"):
            raise WrongTypeError(
                f"{what} {where} (for {variable.path!r}) is no tensor. "
                f"Received: {type(value).__name__}"
            )
        expected, received = shape_of(variable.value), shape_of(value)
        if value is not None and not shapes_agree(expected, received):
            raise WrongValueError(
                f"{what} {where} has the shape {received}, but {variable.path!r}, to which it "
                f"would belong, has {expected}. Give both in the same order."
            )
        aligned[position] = value
    return aligned


def _placed(what: str, given: Any, known: Variables) -> Iterator[tuple[str, int, Any]]:
    """(which one, position of its variable, tensor) for all that was given."""
    found = leaves(given)
    if isinstance(given, list | tuple) and not any(leaf.is_named for leaf in found):
        # By place; unless there are leaves that are no variables, which must be skipped.
        if len(found) == len(known.order):
            for i, (leaf, position) in enumerate(zip(found, known.order, strict=True)):
                yield f"[{i}]", position, leaf.value
            return
        if not set(known.position) <= {leaf.keys for leaf in found}:
            raise WrongValueError(
                f"{what} has {len(found)} entries, but there are {len(known.order)} variables to "
                "have one. Give one for each, in the same order; None where there is none."
            )
    if len(found) == 1 and not found[0].keys and len(known.order) == 1:
        yield "", known.order[0], found[0].value
        return
    for leaf in found:
        where = f"[{'/'.join(leaf.keys)!r}]"
        if leaf.keys in known.position:
            yield where, known.position[leaf.keys], leaf.value
        elif leaf.value is not None and hasattr(leaf.value, "shape"):
            names = ", ".join("/".join(keys) for keys in list(known.position)[:5])
            raise WrongValueError(f"{what}{where} belongs to no variable. There are: {names}, ...")


def _listed(given: Any) -> Any:
    return list(given) if isinstance(given, Iterator) else given


def _is_torch(known: Variables) -> bool:
    return all(family(n.value) == "torch" and n.value.is_leaf for n in known.named)


def require_eager(given: Given, caller: str) -> None:
    """Refuse tensors of a function that is being compiled.

    Raises:
        RuntimeError: they are.
    """
    if given.is_traced:
        raise WrongPlaceError(
            f"{caller} was called inside a compiled function (tf.function, jax.jit, ...), where "
            "there are no values yet. There, call readings = monitor.measure(gradients=..., "
            "parameters=...), return the readings, and outside call monitor.record(readings)."
        )
