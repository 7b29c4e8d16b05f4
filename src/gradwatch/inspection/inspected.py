"""What `gradwatch.inspect` found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import (
    NUMBER_FORMATS,
    STATISTICS,
    Bounds,
    CastLoss,
    Histogram,
    Kind,
    Site,
    Summary,
)
from gradwatch.util.display import notebook


@dataclass(frozen=True)
class InspectedGradient:
    """The gradient with respect to one weight, or to one output of a layer.

    Attributes:
        site: of kind `gradient` or `output_gradient`.
        layer, layer_type: the path of the layer, and the name of its class.
        shape, dtype: of the weight or output, and so of the gradient.
        trainable: whether training changes it.
        histogram: of the gradient, with its summary; None if the loss does not depend on it.
        first_values: the first of the gradient's values, in C order.
    """

    site: Site
    layer: str
    layer_type: str
    shape: tuple[int, ...]
    dtype: str
    trainable: bool
    histogram: Histogram | None
    first_values: tuple[float, ...]

    @property
    def summary(self) -> Summary | None:
        """Of the gradient; None if the loss does not depend on it."""
        return None if self.histogram is None else self.histogram.summary

    def lost(self, number_format: str) -> CastLoss | None:
        """What a cast of the gradient would lose, as of `Histogram.lost`; None without one."""
        return None if self.histogram is None else self.histogram.lost(number_format)

    def statistics(self) -> dict[str, float]:
        """Every statistic of the gradient; empty if there is none."""
        if self.summary is None:
            return {}
        return {name: float(each(self.summary)) for name, each in STATISTICS.items()}

    def to_dict(self) -> dict[str, Any]:
        """As plain values, ready for JSON."""
        return {
            "kind": str(self.site.kind),
            "path": self.site.path,
            "layer": self.layer,
            "layer_type": self.layer_type,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "trainable": self.trainable,
            **self.statistics(),
            "casts": {name: self._shares_lost(name) for name in NUMBER_FORMATS},
            "first_values": list(self.first_values),
        }

    def _shares_lost(self, number_format: str) -> dict[str, Bounds] | None:
        lost = self.lost(number_format)
        if lost is None or not lost.elements:
            return None
        return dict(lost.shares())


class Inspection:
    """The gradients of the loss of one batch, layer by layer.

    It prints as a table, and is one in a notebook.

    Attributes:
        model: the model's name.
        loss: the loss of the batch.
        training: whether the model was called as in training.
        entries: the gradients, in network order: of each layer its weights, then
            its outputs.
        remarks: which outputs could not be seen, and why.
        shown_in: the notebook's cell that has displayed it; None if none has.
    """

    def __init__(
        self,
        model: str,
        loss: float,
        training: bool,
        entries: Sequence[InspectedGradient],
        remarks: Sequence[str],
        arrays: Mapping[Site, NDArray[Any] | None],
    ) -> None:
        self.model = model
        self.loss = loss
        self.training = training
        self.entries = list(entries)
        self.remarks = list(remarks)
        self.shown_in: int | None = None
        self._arrays = dict(arrays)

    def total(self) -> Summary:
        """The gradients with respect to all trainable weights shown, merged."""
        return self.total_histogram().summary

    def total_histogram(self) -> Histogram:
        """As `total`, with how many elements are of which size."""
        own = (
            entry.histogram
            for entry in self.entries
            if entry.site.kind is Kind.GRADIENT and entry.trainable and entry.histogram is not None
        )
        return reduce(Histogram.merge, own, Histogram.empty())

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, ready for JSON."""
        return {
            "model": self.model,
            "loss": self.loss,
            "training": self.training,
            "entries": [entry.to_dict() for entry in self.entries],
            "remarks": list(self.remarks),
        }

    def numpy(self, site: Site | str) -> NDArray[Any]:
        """The values of a gradient, or of an output.

        Args:
            site: the path of a weight (`net/conv/kernel`) or of a layer (`net/conv`)
                for the gradient with respect to it or to its output; or a `Site`,
                of kind `output` for what the layer returned.

        Raises:
            KeyError: there is none of that name, or the loss does not depend on it.
        """
        wanted = [site] if isinstance(site, Site) else [Site(k, site) for k in _GRADIENTS]
        known = [each for each in wanted if each in self._arrays]
        if not known:
            paths = list(dict.fromkeys(each.path for each in self._arrays))
            near = get_close_matches(wanted[0].path, paths, n=4, cutoff=0.4) or paths[:8]
            raise KeyError(f"{site} is not among what was inspected. Closest: {', '.join(near)}")
        array = self._arrays[known[0]]
        if array is None:
            raise KeyError(f"{known[0]}: the loss does not depend on it, so there is no gradient.")
        return np.array(array)

    def __repr__(self) -> str:
        return f"<Inspection of {self.model}: loss {self.loss:.6g}, {len(self.entries)} gradients>"

    def __str__(self) -> str:
        from gradwatch.inspection.table_text import as_text

        return as_text(self)

    def _repr_html_(self) -> str | None:
        from gradwatch.inspection.table_text import running_cell

        if self.shown_in is not None and self.shown_in == running_cell():
            return None
        return notebook().inspection_html(self)


_GRADIENTS = (Kind.GRADIENT, Kind.OUTPUT_GRADIENT)
