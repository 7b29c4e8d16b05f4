"""The layers of a Keras model in a hand-written loop."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import keras

from gradwatch.capture.keras.layers import output_sites_of
from gradwatch.capture.keras.output_watch import OutputWatch
from gradwatch.core import KerasModel, Site, SiteInfo, Tensor
from gradwatch.measure import framework
from gradwatch.util import Reporter


class KerasLayers:
    """See `Layers`; the tensors are noted as in `fit`."""

    def __init__(self, model: KerasModel, reporter: Reporter) -> None:
        self._model = model
        self._watch = OutputWatch(model, reporter)

    @property
    def are_known(self) -> bool:
        # Layers may make their own layers when they are built.
        return bool(self._model.built)

    def infos(self) -> Sequence[SiteInfo]:
        return output_sites_of(self._model)

    def watching(
        self, sites: Sequence[Site] | None, with_gradients: bool
    ) -> AbstractContextManager[None]:
        return self._watch.watching(sites, with_gradients)

    def taken(self, sites: Sequence[Site]) -> Sequence[tuple[Site, Site, Tensor]]:
        # The loss is the loop's own: whether it was scaled, only the loop knows.
        own = framework(keras.backend.backend())
        rows = self._watch.rows(own, sites, lambda gradient: gradient)
        return [(sites[row.position], row.site, row.tensor) for row in rows]
