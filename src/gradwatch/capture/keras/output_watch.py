"""Watching the outputs of layers in a training step, for the sites that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from gradwatch.capture.keras.layers import LayersOf, ModelLayer
from gradwatch.capture.keras.outputs import LayerTap, measured_tensor
from gradwatch.capture.keras.taps import Passage, make_tap
from gradwatch.capture.keras.taps.calls import gradient_remarks, site_paths
from gradwatch.sites import Kind, Site


class Row(NamedTuple):
    """A tensor to be summarised."""

    position: int
    """Of the site that was asked for and that it belongs to."""
    site: Site
    """What it is recorded as; a layer that is called twice has two of them."""
    tensor: Any


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
        tap = make_tap(model)
        self._tap = LayerTap(tap, fault, mine)
        self.aside = tap.aside
        self._known = LayersOf(model)

    @contextmanager
    def watching(self, sites: Sequence[Site] | None) -> Iterator[None]:
        """Around the model's train step; where the sites are not known as yet, note every layer."""
        known = self._known.now()
        chosen = known.every
        if sites is not None:
            paths = {site.path for site in sites if site.kind.is_of_layer}
            chosen = [each.layer for path, each in known.by_path.items() if path in paths]
        chosen = [layer for layer in chosen if id(layer) not in known.inside_recurrent]
        with self._tap.on(chosen, known.every):
            yield

    def rows(self, sites: Sequence[Site], unscaled: Callable[[Any], Any]) -> list[Row]:
        """After the train step: the tensors of those of the sites that are of layers.

        Args:
            sites: which layers, and what of them.
            unscaled: divides a loss scale out of a gradient.
        """
        known = self._known.now()
        layers = known.by_path
        passages = {
            path: self._passages(layers[path], known.inside_recurrent)
            for path in dict.fromkeys(s.path for s in sites if s.kind.is_of_layer)
        }
        rows = [
            Row(
                position,
                Site(site.kind, path),
                measured_tensor(site.kind, layers[site.path], passage, unscaled),
            )
            for position, site in enumerate(sites)
            for path, passage in passages.get(site.path, [])
            if site.kind.is_of_layer
        ]
        self._tap.forget()
        self._remark_on_gradients(rows, passages)
        return rows

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
        missing = [row.site.path for row in gradients if row.tensor is None]
        often = [p for pairs in passages.values() for p, passage in pairs if passage.arrivals > 1]
        for remark in gradient_remarks(missing, often if gradients else []):
            self._remark(remark)
