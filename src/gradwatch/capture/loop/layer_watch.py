"""Choosing layers of a model by the monitor's watches, and noting what they return."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from gradwatch.capture.errors import WrongTypeError
from gradwatch.capture.loop.layer_tensors import Found, LayerTensors, itself, under
from gradwatch.capture.loop.step_layout import narrowed
from gradwatch.core import Kind, Site, SiteInfo
from gradwatch.watches import Plan, Timetable


class Layers(Protocol):
    """The layers of a model, of Keras or of torch, under their paths in it."""

    @property
    def are_known(self) -> bool:
        """Whether all layers exist already, so that some of them can be chosen."""

    def infos(self) -> Sequence[SiteInfo]:
        """All sites that there are to choose from."""

    def watching(
        self, sites: Sequence[Site] | None, with_gradients: bool
    ) -> AbstractContextManager[None]:
        """While the context lasts, note what happens at the sites; None for all of them.

        Output gradients are noted only if they are among the sites and `with_gradients`.
        """

    def taken(self, sites: Sequence[Site]) -> Sequence[tuple[Site, Site, Any]]:
        """What was noted: (one of the sites, what it is recorded as, its tensor)."""


def layers_of(
    model: Any, fault: Callable[[Exception], None], remark: Callable[[str], None]
) -> Layers:
    """The layers of what the user gave.

    Args:
        model: a Keras model, or a torch module.
        fault: told of an exception of ours.
        remark: told, in words, of what the user should know.

    Raises:
        TypeError: it is neither.
    """
    keras, torch = sys.modules.get("keras"), sys.modules.get("torch")
    if keras is not None and isinstance(model, keras.Model):
        from gradwatch.capture.loop.keras_layers import KerasLayers

        return KerasLayers(model, fault, remark)
    is_keras = keras is not None and isinstance(model, keras.Layer)
    if torch is not None and isinstance(model, torch.nn.Module) and not is_keras:
        from gradwatch.capture.torch.torch_layers import TorchLayers

        return TorchLayers(model, fault, remark)
    raise WrongTypeError(
        "Layers are found in a Keras 3 model or a torch.nn.Module. Of anything else, "
        'give the tensors themselves: outputs={"hidden": tensor}. '
        f"Received: {type(model).__name__}"
    )


class LayerWatch:
    """Notes what the watches of a monitor ask for of a model's layers.

    Args:
        layers: those of the model.
        timetable: the watches.
        group: what paths begin with, for selectors; may be empty.
    """

    def __init__(self, layers: Layers, timetable: Timetable, group: str) -> None:
        self._layers = layers
        self._timetable = timetable
        self._group = group

    def watching(self) -> AbstractContextManager[None]:
        """While the context lasts, note what the chosen layers return."""
        chosen = self._chosen() if self._layers.are_known else None
        return self._layers.watching(chosen, Kind.OUTPUT_GRADIENT in self._timetable.kinds)

    def infos(self, prefix: str) -> list[SiteInfo]:
        """All sites that there are to choose from, with the prefix."""
        return [
            replace(info, site=Site(info.kind, under(prefix, info.path)))
            for info in self._layers.infos()
        ]

    def take(self, prefix: str) -> LayerTensors:
        """What was noted since the last time."""
        found: dict[Site, list[Found]] = {}
        taken = self._layers.taken(self._chosen())
        for asked, own, tensor in taken:
            entry = Found(Site(own.kind, under(prefix, own.path)), partial(itself, tensor))
            found.setdefault(Site(asked.kind, under(prefix, asked.path)), []).append(entry)
        return LayerTensors(self.infos(prefix), found, [x for _, _, x in taken if x is not None])

    def _chosen(self) -> list[Site]:
        own = [info.site for info in self._layers.infos()]
        offered = self.infos(self._group)
        # A selector that matches nothing is heard of when it is recorded.
        wanted = set(Plan(narrowed(self._timetable, offered), offered).sites)
        return [site for site, info in zip(own, offered, strict=True) if info.site in wanted]
