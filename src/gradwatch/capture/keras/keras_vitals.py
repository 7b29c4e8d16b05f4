"""The residual branches and the logits of a Keras model, in a training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

import keras
from keras.src.backend.common.symbolic_scope import in_symbolic_scope

from gradwatch.capture.keras.attributes import replaced
from gradwatch.capture.keras.keras_graph import output_operations, residual_sums
from gradwatch.capture.keras.model_parts import fact
from gradwatch.capture.site_table import Row
from gradwatch.capture.taps import Passage, Tap
from gradwatch.core import KerasLayer, KerasModel, Kind, Site, SiteInfo, Tensor
from gradwatch.measure import framework
from gradwatch.util import Reporter

VITALS = (Kind.RESIDUAL_RATIO, Kind.LOGIT)
LOSS = "logits"
"""The path of logits that a loss is given by a model without a graph."""
_DECIDING = ("softmax", "sigmoid", "log_softmax", "log_sigmoid")

Measure = Callable[[Site, Tensor], Any]


class VitalPlace(NamedTuple):
    """Something that is called in a step, and what is measured of its arguments or result."""

    site: Site
    owner: Any
    method: str
    tensors: Callable[[Sequence[Any], Any], Sequence[Any]]
    """The tensors, from its arguments and its result."""


def places_of(model: KerasModel, paths: Mapping[int, str]) -> list[VitalPlace]:
    """The residual sums and the logits of a model; `paths` are those of its layers, by id."""
    found: list[VitalPlace] = []
    for each in residual_sums(model):
        path = paths.get(id(each.branch)) or paths.get(id(each.operation))
        site = Site(Kind.RESIDUAL_RATIO, path or each.operation.name)
        found.append(VitalPlace(site, each.operation, "call", _summands(each.stream)))
    names = (Site(Kind.LOGIT, f"{LOSS}_{n}" if n else LOSS) for n in count())
    outputs = output_operations(model)
    losses = _losses(model)
    for i, output in enumerate(outputs):
        loss = losses[i] if i < len(losses) else None
        found += _logits_of(output, loss, paths.get(id(output)), names)
    if not outputs and len(losses) == 1 and _takes_logits(losses[0]):
        found.append(VitalPlace(next(names), losses[0], "call", lambda args, _: args[1:2]))
    return found


def _summands(stream: int) -> Callable[[Sequence[Any], Any], Sequence[Any]]:
    def tensors(args: Sequence[Any], result: Any) -> Sequence[Any]:
        both = args[0] if len(args) == 1 else args
        return both[1 - stream], both[stream]

    return tensors


def _logits_of(
    output: Any, loss: Any, path: str | None, names: Iterator[Site]
) -> Iterator[VitalPlace]:
    """Where the logits of an output are; nothing where that cannot be told."""
    activation = fact(output, "activation")
    is_keras = getattr(activation, "__module__", "").partition(".")[0] == "keras"
    decides = is_keras and getattr(activation, "__name__", "") in _DECIDING
    site = Site(Kind.LOGIT, path) if path else next(names)
    if isinstance(output, keras.layers.Softmax) or (
        decides and isinstance(output, keras.layers.Activation)
    ):
        yield VitalPlace(site, output, "call", lambda args, _: args[:1])
    elif decides:
        yield VitalPlace(site, output, "activation", lambda args, _: args[:1])
    elif _takes_logits(loss):
        yield VitalPlace(site, output, "call", lambda _, result: [result])


def _losses(model: Any) -> list[Any]:
    """The loss of each output, as the model was compiled."""
    given = fact(model, "loss")
    if isinstance(given, Mapping):
        names = fact(model, "output_names") or list(given)
        return [given.get(name) for name in names]
    return list(given) if isinstance(given, list | tuple) else [] if given is None else [given]


def _takes_logits(loss: Any) -> bool:
    return isinstance(loss, keras.losses.Loss) and bool(fact(loss, "from_logits"))


def vital_infos(places: Sequence[VitalPlace]) -> list[SiteInfo]:
    infos = {
        place.site: SiteInfo(place.site, (), "", "output", owners=(place.owner,))
        for place in places
    }
    return list(infos.values())


class VitalTap:
    """Notes what is called at some places, while a model's step is traced or run."""

    def __init__(self, tap: Tap, reporter: Reporter) -> None:
        self._tap, self._reporter = tap, reporter
        self._found: dict[Site, list[Any]] = {}
        self._lost: set[Site] = set()
        self._backend = framework(keras.backend.backend())

    @contextmanager
    def watching(self, places: Sequence[VitalPlace], measure: Measure | None) -> Iterator[None]:
        """Note them while the context lasts; `measure` measures logits as they arise."""
        self._found, self._lost = {}, set()
        with replaced(self._replacements(places, measure)):
            yield

    def rows(self, wanted: Mapping[Site, int]) -> list[Row]:
        """After the step: the tensors of the sites, whose positions are given."""
        found, self._found = self._found, {}
        rows = []
        for site, position in wanted.items():
            for number, tensors in enumerate(found.get(site, ()), 1):
                path = site.path if number == 1 else f"{site.path}@{number}"
                measured = self._measured(site.kind, tensors)
                rows.append(Row(position, Site(site.kind, path), measured))
        if self._lost:
            names = ", ".join(sorted(site.path for site in self._lost))
            self._reporter.notice(
                f"Residual branches or logits of {names} are not recorded: they are inside a "
                "loop, a branch or a function compiled on its own."
            )
        return rows

    def _replacements(
        self, places: Sequence[VitalPlace], measure: Measure | None
    ) -> Iterator[tuple[KerasLayer, dict[str, Any]]]:
        for place in places:
            yield place.owner, {place.method: self._noting(place, measure)}

    def _noting(self, place: VitalPlace, measure: Measure | None) -> Callable[..., Any]:
        own = getattr(place.owner, place.method)

        def noting(*args: Any, **kwargs: Any) -> Any:
            result = own(*args, **kwargs)
            # When Keras only works out shapes, nothing is computed.
            if not in_symbolic_scope():
                with self._reporter.guard("noting residual branches and logits", "one of them"):
                    self._note(place, (*args, *kwargs.values()), result, measure)
            return result

        return noting

    def _note(
        self, place: VitalPlace, args: Sequence[Any], result: Any, measure: Measure | None
    ) -> None:
        passages = [Passage(wants_gradient=False) for _ in place.tensors(args, result)]
        for x, passage in zip(place.tensors(args, result), passages, strict=True):
            self._tap.through(keras.ops.convert_to_tensor(x), passage)
        tensors = [passage.output for passage in passages]
        if not all(map(self._tap.can_leave, tensors)):
            self._lost.add(place.site)
            return
        if measure is not None:
            # Not kept until the end of the step: it would be memory that training lacks.
            tensors = [measure(place.site, self._measured(place.site.kind, tensors))]
        self._found.setdefault(place.site, []).append(tensors)

    def _measured(self, kind: Kind, tensors: Sequence[Any]) -> Any:
        if len(tensors) == 1:
            return tensors[0]
        with self._backend.aside():
            return self._backend.residual_ratio(*tensors)
