"""Chooses layers of a model by the monitor's watches, and notes what they return."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol

from gradwatch.capture.errors import WrongTypeError
from gradwatch.capture.loop.loop_plans import narrowed
from gradwatch.capture.loop.module_walk import is_linen, is_module
from gradwatch.capture.step_tensors import SiteTensor, StepTensors, under
from gradwatch.core import Kind, Site, SiteInfo
from gradwatch.util import Reporter
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
        """Note the tensors at the sites while the context lasts; None for all sites.

        Output gradients are noted only if they are among the sites and `with_gradients`.
        """

    def taken(self, sites: Sequence[Site]) -> Sequence[tuple[Site, Site, Any]]:
        """The noted tensors: (one of the sites, the site of the record, the tensor)."""


def layers_of(model: Any, reporter: Reporter) -> Layers:
    """The layers of a Keras model, or of a torch module; raises TypeError for anything else."""
    keras, torch = sys.modules.get("keras"), sys.modules.get("torch")
    if keras is not None and isinstance(model, keras.Model):
        from gradwatch.capture.loop.keras_layers import KerasLayers

        return KerasLayers(model, reporter)
    is_keras = keras is not None and isinstance(model, keras.Layer)
    if torch is not None and isinstance(model, torch.nn.Module) and not is_keras:
        from gradwatch.capture.torch.torch_layers import TorchLayers

        return TorchLayers(model, reporter)
    if "jax" in sys.modules and (is_module(model) or is_linen(model)):
        from gradwatch.capture.loop.jax_layers import JaxLayers

        return JaxLayers(model, reporter)
    raise WrongTypeError(
        "Layers are found in a Keras 3 model, a torch.nn.Module and in modules of Flax (NNX and "
        "Linen) and Equinox. Of anything else, "
        'give the tensors themselves: outputs={"hidden": tensor}. '
        f"Received: {type(model).__name__}"
    )


class LayerWatch:
    """Notes the tensors of a model's layers that a monitor watches."""

    def __init__(self, layers: Layers, timetable: Timetable, group: str) -> None:
        self._layers = layers
        self._timetable = timetable
        self._group = group
        self._own: Sequence[SiteInfo] = ()
        self._infos: dict[str, list[SiteInfo]] = {}
        self._wanted: list[Site] | None = None

    def watching(self) -> AbstractContextManager[None]:
        """Note what the chosen layers return while the context lasts."""
        chosen = self._chosen() if self._layers.are_known else None
        return self._layers.watching(chosen, Kind.OUTPUT_GRADIENT in self._timetable.kinds)

    def infos(self, prefix: str) -> list[SiteInfo]:
        own = self._layers.infos()
        if own is not self._own:
            self._own, self._infos, self._wanted = own, {}, None
        # Kept: making them, and choosing, takes longer than to measure what they are of.
        if prefix not in self._infos:
            self._infos[prefix] = [
                replace(info, site=Site(info.kind, under(prefix, info.path))) for info in own
            ]
        return self._infos[prefix]

    def take(self, prefix: str) -> StepTensors:
        """The tensors that were noted since the last time."""
        found: dict[Site, list[SiteTensor]] = {}
        for asked, own, tensor in self._layers.taken(self._chosen()):
            entry = SiteTensor(Site(own.kind, under(prefix, own.path)), tensor)
            found.setdefault(Site(asked.kind, under(prefix, asked.path)), []).append(entry)
        return StepTensors(self.infos(prefix), found)

    def _chosen(self) -> list[Site]:
        offered = self.infos(self._group)
        if self._wanted is None:
            # A selector that matches nothing is reported when the step is recorded.
            wanted = set(Plan(narrowed(self._timetable, offered), offered).sites)
            pairs = zip(self._own, offered, strict=True)
            self._wanted = [own.site for own, info in pairs if info.site in wanted]
        return self._wanted
