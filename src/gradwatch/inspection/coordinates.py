"""How the outputs of layers change with the width of a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradwatch.util import TextColumn, compact, counted, printable, without_root
from gradwatch.util.display import notebook
from gradwatch.util.text_table import plain_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Values = NDArray[np.float64]
Scaling = Literal["grows", "shrinks", "stays", "unclear"]
ERRORS = 2.0
"""By how many standard errors a slope has to exceed the tolerance."""


@dataclass(frozen=True)
class Slope:
    """The exponent `a` of a power law, size ~ width^a, and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, widths: Sequence[int], sizes: Values) -> Slope:
        """By least squares on logarithms, of widths x repeats; NaN if a size is 0 or not finite."""
        if not (np.isfinite(sizes) & (sizes > 0)).all():
            return cls(math.nan, math.nan)
        x = np.repeat(np.log2(widths), sizes.shape[1])
        y = np.log2(sizes).ravel()
        x = x - x.mean()
        spread = (x**2).sum()
        value = (x * y).sum() / spread
        residuals = y - y.mean() - value * x
        return cls(float(value), float(np.sqrt((residuals**2).sum() / (x.size - 2) / spread)))

    @property
    def least(self) -> float:
        return self.value - ERRORS * self.error

    @property
    def most(self) -> float:
        return self.value + ERRORS * self.error


@dataclass(frozen=True, eq=False)
class LayerScaling:
    """The outputs of one layer at all widths.

    Attributes:
        path: of the layer in the first model.
        sizes: the mean absolute output: steps x widths x repeats.
        slopes: of each step.
        scaling: `"grows"` if its slope is above the tolerance at a step after the first update,
            `"shrinks"` if it is below at the last step; `"stays"`; `"unclear"` if a size was 0.
    """

    path: str
    sizes: Values
    slopes: tuple[Slope, ...]
    scaling: Scaling

    @classmethod
    def of(cls, path: str, widths: Sequence[int], sizes: Values, tolerance: float) -> LayerScaling:
        slopes = tuple(Slope.of(widths, each) for each in sizes)
        return cls(path, sizes, slopes, _scaling(slopes, sizes, tolerance))

    @property
    def steepest(self) -> Slope:
        """The slope that decides: the largest after the first update, or the last if it shrinks."""
        known = [each for each in self.slopes[1:] if not math.isnan(each.value)]
        if self.scaling == "shrinks" or not known:
            return self.slopes[-1]
        return max(known, key=lambda slope: slope.least)


def _scaling(slopes: Sequence[Slope], sizes: Values, tolerance: float) -> Scaling:
    if not np.isfinite(sizes[1:]).all():
        return "grows"
    if any(slope.least > tolerance for slope in slopes[1:]):
        return "grows"
    if math.isnan(slopes[-1].value):
        return "unclear"
    return "shrinks" if slopes[-1].most < -tolerance else "stays"


class CoordinateCheck:
    """What `gradwatch.coordinate_check` found. It prints as a table.

    Attributes:
        widths: the widths that were tried.
        steps: how many steps each model was trained.
        repeats: how many models there were of each width.
        layers: the layers in network order.
    """

    def __init__(
        self, widths: Sequence[int], steps: int, repeats: int, layers: Sequence[LayerScaling]
    ) -> None:
        self.widths = tuple(widths)
        self.steps = steps
        self.repeats = repeats
        self.layers = list(layers)

    @property
    def ok(self) -> bool:
        """Whether no layer grows with width. The output of muP may shrink at first."""
        return not self.of("grows")

    def of(self, scaling: Scaling) -> list[LayerScaling]:
        """The layers that do this with width."""
        return [layer for layer in self.layers if layer.scaling == scaling]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, ready for JSON."""
        return {
            "ok": self.ok,
            "widths": list(self.widths),
            "steps": self.steps,
            "repeats": self.repeats,
            "layers": [
                {
                    "path": layer.path,
                    "scaling": layer.scaling,
                    "sizes": layer.sizes.tolist(),
                    "slopes": [vars(slope) for slope in layer.slopes],
                }
                for layer in self.layers
            ],
        }

    def plot(self, step: int | None = None, ax: Axes | None = None) -> Axes:
        """Plot the outputs of all layers against width, on logarithmic axes.

        Args:
            step: which, from 1, at initialisation, to the last, the default.
            ax: the axes to draw on; a new figure by default.

        Raises:
            ImportError: matplotlib is missing: `pip install 'gradwatch[plot]'`.
            ValueError: there was no such step.
        """
        number = self.steps if step is None else step
        if not 1 <= number <= self.steps:
            raise ValueError(f"step must be from 1 to {self.steps}. Received: {step}")
        axes: Axes = notebook().plot_coordinates(self, number, ax)
        return axes

    def title(self) -> str:
        found = [(len(self.of(scaling)), scaling) for scaling in ("grows", "shrinks")]
        says = ", ".join(
            f"{counted(n, 'layer')} {_VERB[s][n > 1]} with width" for n, s in found if n
        )
        says = says or "no layer depends on the width"
        tried = f"{len(self.widths)} widths, {counted(self.steps, 'step')}"
        if self.repeats > 1:
            tried += f", {self.repeats} models each"
        return f"gradwatch · coordinate check · {tried} · {says}"

    def columns(self) -> list[TextColumn]:
        """The table: mean absolute outputs at the last step, and the slopes."""
        names = without_root([layer.path for layer in self.layers])
        sizes = [layer.sizes[-1].mean(axis=1) for layer in self.layers]
        bad = frozenset(i for i, layer in enumerate(self.layers) if layer.scaling == "grows")
        return [
            TextColumn("mean |output| of", [printable(n) for n in names], left=True, weight=0),
            *(
                TextColumn(f"width {width}", [compact(float(own[i])) for own in sizes], weight=3)
                for i, width in enumerate(self.widths)
            ),
            TextColumn("slope at first", [_signed(each.slopes[0]) for each in self.layers]),
            TextColumn("steepest", [_signed(each.steepest) for each in self.layers], weight=8),
            TextColumn("+-", [compact(e.steepest.error, 2) for e in self.layers], weight=4),
            TextColumn(
                "with width", [e.scaling for e in self.layers], left=True, weight=9, alarms=bad
            ),
        ]

    def __repr__(self) -> str:
        return f"<CoordinateCheck of {counted(len(self.layers), 'layer')}: ok={self.ok}>"

    def __str__(self) -> str:
        return "\n".join([self.title(), *plain_lines(self.columns())])


_VERB = {"grows": ("grows", "grow"), "shrinks": ("shrinks", "shrink")}


def _signed(slope: Slope) -> str:
    return "-" if math.isnan(slope.value) else f"{slope.value:+.2f}"
