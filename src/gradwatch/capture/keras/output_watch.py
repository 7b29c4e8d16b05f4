"""Watches the outputs of layers in a training step, at the chosen sites."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import keras

from gradwatch.capture.keras.keras_vitals import VITALS, VitalPlace, VitalTap, places_of
from gradwatch.capture.keras.layers import KnownLayers, LayersOf, ModelLayer
from gradwatch.capture.keras.outputs import LayerTap, measured_tensor
from gradwatch.capture.site_table import Row
from gradwatch.capture.taps import MEASURED, Passage, always, make_tap
from gradwatch.capture.taps.calls import (
    Refusals,
    attention_path,
    gradient_notices,
    has_tensor,
    site_paths,
    unseen_attention,
)
from gradwatch.core import KerasLayer, KerasModel, Kind, Site, Tensor
from gradwatch.measure import Framework, framework
from gradwatch.util import Reporter
from gradwatch.watches import ATTENTION_KINDS


class EagerMeasuring(NamedTuple):
    """Measures tensors as soon as they are there."""

    add: Callable[[Tensor, bool], Any]
    """Takes a tensor and whether it has a histogram; returns its place, for a `Row`."""
    with_histogram: Collection[int]
    """Positions among the sites."""
    kept: Collection[int]
    """Positions of the sites whose tensors themselves are needed."""
    scaled: bool
    """Whether gradients are of a scaled loss, so that they have to wait for the scale."""


class OutputWatch:
    """Notes the outputs and output gradients of chosen layers in one step.

    How often a layer is called, and how many tensors it returns, is known only then: each is a
    row of its own. If `is_quiet`, no notice is given of outputs that cannot be recorded.
    """

    def __init__(
        self,
        model: KerasModel,
        reporter: Reporter,
        is_watched_replica: Callable[[], bool] = always,
        is_quiet: bool = False,
    ) -> None:
        self._reporter = reporter
        self._is_quiet = is_quiet
        self._refusals = Refusals(self._notice)
        tap = make_tap(model, reporter, is_watched_replica)
        self._tap = LayerTap(tap, reporter, is_watched_replica)
        self._model, self._is_watched_replica = model, is_watched_replica
        self._vitals = VitalTap(tap, reporter)
        self.aside = tap.aside
        self._known = LayersOf(model)
        self._at_step = KnownLayers([], {}, set())
        self._measuring: EagerMeasuring | None = None
        self._chosen: _ChosenLayers | None = None
        self._sites: dict[tuple[Kind, str], Site] = {}

    @contextmanager
    def watching(
        self,
        sites: Sequence[Site] | None,
        with_gradients: bool,
        measuring: EagerMeasuring | None = None,
    ) -> Iterator[None]:
        """Goes around the model's train step.

        Where the sites are None, as they are not known yet, every layer is noted. Where
        `measuring` is None, tensors are kept instead of being measured at once.
        """
        known = self._at_step = self._known.now()
        self._measuring = measuring
        if sites is None:
            every = [each for each in known.every if id(each) not in known.inside_recurrent]
            with (
                self._tap.on(every, known.every, None if with_gradients else ()),
                self._watching_vitals(None, measuring),
            ):
                yield
            return
        if self._chosen is None or not self._chosen.is_for(sites, known):
            self._chosen = _ChosenLayers(sites, known)
        chosen = self._chosen
        taken = None if measuring is None else partial(self._take, chosen, measuring)
        wanted = chosen.differentiated, taken, chosen.attending
        with (
            self._tap.on(chosen.layers, known.every, *wanted),
            self._watching_vitals(sites, measuring),
        ):
            yield

    @contextmanager
    def _watching_vitals(
        self, sites: Sequence[Site] | None, measuring: EagerMeasuring | None
    ) -> Iterator[None]:
        wanted = None if sites is None else {s: i for i, s in enumerate(sites) if s.kind in VITALS}
        if not (wanted is None or wanted) or not self._is_watched_replica():
            yield
            return
        places: list[VitalPlace] = []
        with self._reporter.guard("finding residual branches and logits", "those of that step"):
            places = vital_places(self._model, self._at_step)
        if wanted is not None:
            places = [place for place in places if place.site in wanted]
        measure = None
        if measuring is not None and wanted is not None:
            counted = {site for site, i in wanted.items() if i in measuring.with_histogram}

            def measure(site: Site, tensor: Tensor) -> Any:
                return measuring.add(tensor, site in counted)

        with self._vitals.watching(places, measure):
            yield

    def _take(
        self,
        chosen: _ChosenLayers,
        measuring: EagerMeasuring,
        layer: KerasLayer,
        passage: Passage,
    ) -> None:
        """Measure what passed a tap, and release it."""
        model_layer, places = chosen.of[id(layer)]
        if measuring.kept and any(position in measuring.kept for position in places.values()):
            return
        own = framework(keras.backend.backend())
        for kind, position in places.items():
            if kind in ATTENTION_KINDS and passage.attention is None:
                continue
            if kind is not Kind.OUTPUT_GRADIENT:
                tensor = measured_tensor(own, kind, model_layer, passage, None)
                counted = position in measuring.with_histogram
                passage.measured[kind] = measuring.add(tensor, counted)
        if Kind.OUTPUT_GRADIENT in places and not measuring.scaled:
            counted = places[Kind.OUTPUT_GRADIENT] in measuring.with_histogram

            def measure_gradient(arrived: Passage) -> None:
                arrived.measured[Kind.OUTPUT_GRADIENT] = measuring.add(arrived.gradient, counted)
                arrived.gradient = MEASURED

            passage.measure_gradient, passage.reporter = measure_gradient, self._reporter
        passage.output, passage.attention = MEASURED, None

    def rows(
        self, own: Framework, sites: Sequence[Site], unscaled: Callable[[Any], Any]
    ) -> list[Row]:
        """After the train step: the tensors of those of the sites that are of layers.

        A loss scale is divided out of gradients by `unscaled`.
        """
        # Layers may have come to life in the step, unless all was known before it.
        known = self._known.now() if self._measuring is None else self._at_step
        layers = known.by_path
        passages = {
            path: self._passages(layers[path], known.inside_recurrent)
            for path in dict.fromkeys(s.path for s in sites if _is_of_call(s.kind))
        }
        self._refusals.tell()
        rows = [
            Row(
                position,
                self._site(site.kind, attention_path(site.kind, path)),
                self._tensor(own, position, site.kind, layers[site.path], passage, unscaled),
            )
            for position, site in enumerate(sites)
            if _is_of_call(site.kind)
            for path, passage in passages[site.path]
            if has_tensor(site.kind, passage)
        ]
        unattended = unseen_attention(sites, passages)
        if unattended:
            self._notice(unattended)
        self._tap.forget()
        self._check_gradients(rows, passages)
        return rows + self._vitals.rows(
            {site: i for i, site in enumerate(sites) if site.kind in VITALS}
        )

    def _site(self, kind: Kind, path: str) -> Site:
        # The same objects each time, so that layouts of rows are quickly compared.
        site = self._sites.get((kind, path))
        if site is None:
            site = self._sites[kind, path] = Site(kind, path)
        return site

    def _tensor(
        self,
        own: Framework,
        position: int,
        kind: Kind,
        layer: ModelLayer,
        passage: Passage,
        unscaled: Callable[[Any], Any],
    ) -> Any:
        tensor = measured_tensor(own, kind, layer, passage, unscaled)
        measuring = self._measuring
        if measuring is None or not measuring.scaled or position in measuring.kept:
            return tensor
        if kind is Kind.OUTPUT_GRADIENT and tensor is not None:
            # A copy without the scale, which need not wait for those of all others.
            passage.gradient = None
            return measuring.add(tensor, position in measuring.with_histogram)
        return tensor

    def _passages(self, layer: ModelLayer, inside_recurrent: set[int]) -> list[tuple[str, Passage]]:
        """The tensors that the layer returned, by their paths; says which are not recorded."""
        calls = self._tap.calls(layer.layer)
        whys = [self._tap.refusal(call) for call in calls]
        if id(layer.layer) in inside_recurrent:
            whys.append("computed inside the loop of a recurrent layer")
        elif not calls:
            whys.append("not seen: the training step does not call the layer, or not directly")
        self._refusals.add(layer.path, whys)
        seen = [call for call, why in zip(calls, whys, strict=False) if why is None]
        return list(site_paths(layer.path, seen))

    def _check_gradients(
        self, rows: list[Row], passages: dict[str, list[tuple[str, Passage]]]
    ) -> None:
        gradients = [row for row in rows if row.site.kind is Kind.OUTPUT_GRADIENT]
        by_path = {path: passage for pairs in passages.values() for path, passage in pairs}
        missing = {r.site.path: by_path[r.site.path] for r in gradients if r.tensor is None}
        often = [path for path, passage in by_path.items() if passage.arrivals > 1]
        for notice in gradient_notices(missing, often if gradients else []):
            self._notice(notice)

    def _notice(self, text: str) -> None:
        if not self._is_quiet:
            self._reporter.notice(text)


_ATTENTION = frozenset(ATTENTION_KINDS)


def _is_of_call(kind: Kind) -> bool:
    """Whether it is noted where a layer is called."""
    return kind.is_of_layer and kind not in VITALS


def vital_places(model: KerasModel, known: KnownLayers) -> list[VitalPlace]:
    """Where a model has residual branches and logits."""
    return places_of(model, {id(each.layer): path for path, each in known.by_path.items()})


class _ChosenLayers:
    """The layers that have sites, and the positions of these."""

    def __init__(self, sites: Sequence[Site], known: KnownLayers) -> None:
        self._sites, self._known = sites, known
        places: dict[str, dict[Kind, int]] = {}
        for position, site in enumerate(sites):
            if _is_of_call(site.kind):
                places.setdefault(site.path, {})[site.kind] = position
        chosen = {
            id(each.layer): (each, places[path])
            for path, each in known.by_path.items()
            if path in places and id(each.layer) not in known.inside_recurrent
        }
        self.of = chosen
        """By the layer's id, the layer and the positions of its sites."""
        self.layers = [each.layer for each, _ in chosen.values()]
        self.differentiated = {
            key for key, (_, kinds) in chosen.items() if Kind.OUTPUT_GRADIENT in kinds
        }
        """Ids of the layers whose gradients are wanted."""
        self.attending = {key for key, (_, kinds) in chosen.items() if kinds.keys() & _ATTENTION}
        """Ids of the layers whose attention is wanted."""

    def is_for(self, sites: Sequence[Site], known: KnownLayers) -> bool:
        return self._sites is sites and self._known is known
