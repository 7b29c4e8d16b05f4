"""Watching the outputs of layers in a training step, for the sites that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from gradwatch.capture.keras.layers import KnownLayers, LayersOf, ModelLayer
from gradwatch.capture.keras.outputs import LayerTap, measured_tensor
from gradwatch.capture.keras.taps import MEASURED, Passage, make_tap
from gradwatch.capture.keras.taps.calls import gradient_remarks, site_paths
from gradwatch.core import Kind, Site


class Row(NamedTuple):
    """A tensor to be summarised."""

    position: int
    """Of the site that was asked for and that it belongs to."""
    site: Site
    """What it is recorded as; a layer that is called twice has two of them."""
    tensor: Any
    """Or where its row is, if it has been measured already."""


class Measuring(NamedTuple):
    """How tensors are measured as soon as they are there."""

    add: Callable[[Any, bool], Any]
    """Takes a tensor and whether its histogram is wanted; gives what stands for it in a `Row`."""
    with_histogram: Collection[int]
    """Positions among the sites."""
    kept: Collection[int]
    """Positions of those whose tensors themselves are wanted."""
    scaled: bool
    """Whether gradients are of a scaled loss, so that they have to wait for the scale."""


class OutputWatch:
    """Notes the outputs and output gradients of chosen layers in one step.

    How often a layer is called, and how many tensors it returns, is known only
    then: each is a row of its own.

    Args:
        model: the Keras model.
        fault: told of an exception of ours.
        remark: told, in words, of what the user should know.
        mine: tells whether it is the replica to be noted that runs; None if there is but one.
    """

    def __init__(
        self,
        model: Any,
        fault: Callable[[Exception], None],
        remark: Callable[[str], None],
        mine: Callable[[], bool] | None = None,
    ) -> None:
        self._model = model
        self._remark = remark
        self._fault = fault
        tap = make_tap(model, fault, mine)
        self._tap = LayerTap(tap, fault, mine)
        self.aside = tap.aside
        self._known = LayersOf(model)
        self._at_step = KnownLayers([], {}, set())
        self._measuring: Measuring | None = None
        self._wishes: tuple[Any, _Wishes] | None = None
        self._sites: dict[tuple[Kind, str], Site] = {}

    @contextmanager
    def watching(
        self,
        sites: Sequence[Site] | None,
        with_gradients: bool,
        measuring: Measuring | None = None,
    ) -> Iterator[None]:
        """Around the model's train step.

        Args:
            sites: what is to be measured; None if that is not known as yet: every layer is noted.
            with_gradients: whether there may be output gradients among them.
            measuring: measures tensors at once; None to keep them.
        """
        known = self._at_step = self._known.now()
        self._measuring = measuring
        if sites is None:
            chosen = [each for each in known.every if id(each) not in known.inside_recurrent]
            with self._tap.on(chosen, known.every, None if with_gradients else ()):
                yield
            return
        wishes = self._wishes_of(sites, known)
        taken = None if measuring is None else partial(self._take, wishes, measuring)
        with self._tap.on(wishes.layers, known.every, wishes.differentiated, taken):
            yield

    def _wishes_of(self, sites: Sequence[Site], known: KnownLayers) -> _Wishes:
        """What is wanted of which layers; worked out once for the same."""
        if self._wishes is None or self._wishes[0] != (id(sites), id(known)):
            self._wishes = (id(sites), id(known)), _Wishes(sites, known)
        return self._wishes[1]

    def _take(self, wishes: _Wishes, measuring: Measuring, layer: Any, passage: Passage) -> None:
        """Have what passed a tap measured, and let go of it."""
        model_layer, places = wishes.of[id(layer)]
        if measuring.kept and any(position in measuring.kept for position in places.values()):
            return
        for kind, position in places.items():
            if kind is not Kind.OUTPUT_GRADIENT:
                tensor = measured_tensor(kind, model_layer, passage, None)
                counted = position in measuring.with_histogram
                passage.measured[kind] = measuring.add(tensor, counted)
        if Kind.OUTPUT_GRADIENT in places and not measuring.scaled:
            counted = places[Kind.OUTPUT_GRADIENT] in measuring.with_histogram

            def measure_gradient(arrived: Passage) -> None:
                arrived.measured[Kind.OUTPUT_GRADIENT] = measuring.add(arrived.gradient, counted)
                arrived.gradient = MEASURED

            passage.measure_gradient, passage.fault = measure_gradient, self._fault
        passage.output = MEASURED

    def rows(self, sites: Sequence[Site], unscaled: Callable[[Any], Any]) -> list[Row]:
        """After the train step: the tensors of those of the sites that are of layers.

        Args:
            sites: which layers, and what of them.
            unscaled: divides a loss scale out of a gradient.
        """
        # Layers may have come to life in the step, unless all was known before it.
        known = self._known.now() if self._measuring is None else self._at_step
        layers = known.by_path
        passages = {
            path: self._passages(layers[path], known.inside_recurrent)
            for path in dict.fromkeys(s.path for s in sites if s.kind.is_of_layer)
        }
        rows = [
            Row(
                position,
                self._site(site.kind, path),
                self._tensor(position, site.kind, layers[site.path], passage, unscaled),
            )
            for position, site in enumerate(sites)
            if site.kind.is_of_layer
            for path, passage in passages[site.path]
        ]
        self._tap.forget()
        self._remark_on_gradients(rows, passages)
        return rows

    def _site(self, kind: Kind, path: str) -> Site:
        # The same objects each time, so that layouts of rows are quickly compared.
        site = self._sites.get((kind, path))
        if site is None:
            site = self._sites[kind, path] = Site(kind, path)
        return site

    def _tensor(
        self,
        position: int,
        kind: Kind,
        layer: ModelLayer,
        passage: Passage,
        unscaled: Callable[[Any], Any],
    ) -> Any:
        tensor = measured_tensor(kind, layer, passage, unscaled)
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
        for why in dict.fromkeys(filter(None, whys)):
            self._remark(f"Outputs of {layer.path} are not recorded: they are {why}.")
        seen = [call for call, why in zip(calls, whys, strict=False) if why is None]
        return list(site_paths(layer.path, seen))

    def _remark_on_gradients(
        self, rows: list[Row], passages: dict[str, list[tuple[str, Passage]]]
    ) -> None:
        gradients = [row for row in rows if row.site.kind is Kind.OUTPUT_GRADIENT]
        by_path = {path: passage for pairs in passages.values() for path, passage in pairs}
        missing = {r.site.path: by_path[r.site.path] for r in gradients if r.tensor is None}
        often = [path for path, passage in by_path.items() if passage.arrivals > 1]
        for remark in gradient_remarks(missing, often if gradients else []):
            self._remark(remark)


class _Wishes:
    """What is wanted of which layers.

    Args:
        sites: all sites that are measured.
        known: the model's layers.
    """

    def __init__(self, sites: Sequence[Site], known: KnownLayers) -> None:
        self._kept = sites, known  # They are known again by their ids.
        places: dict[str, dict[Kind, int]] = {}
        for position, site in enumerate(sites):
            if site.kind.is_of_layer:
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
