"""The layers of a Keras model in a hand-written loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from gradwatch.capture.keras.layers import output_sites_of
from gradwatch.capture.keras.output_watch import OutputWatch
from gradwatch.core import Site, SiteInfo


class KerasLayers:
    """See `Layers`; the tensors are noted as in `fit`.

    Args:
        model: the Keras model.
        fault: told of an exception of ours.
        remark: told, in words, of what the user should know.
    """

    def __init__(
        self, model: Any, fault: Callable[[Exception], None], remark: Callable[[str], None]
    ) -> None:
        self._model = model
        self._watch = OutputWatch(model, fault, remark)

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

    def taken(self, sites: Sequence[Site]) -> Sequence[tuple[Site, Site, Any]]:
        # The loss is the loop's own: whether it was scaled, only the loop knows.
        rows = self._watch.rows(sites, lambda gradient: gradient)
        return [(sites[row.position], row.site, row.tensor) for row in rows]
