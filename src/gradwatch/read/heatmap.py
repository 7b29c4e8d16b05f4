"""A statistic of many sites over a whole run, at the resolution that can be drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, Site
from gradwatch.read.grid import Bucketing
from gradwatch.util.display import notebook

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Steps = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Heatmap:
    """A statistic of sites over stretches of steps.

    Attributes:
        kind, statistic: of what.
        sites: one a row, in network order.
        first, last: the first and the last measured step of each column.
        values: sites by columns; NaN where nothing was measured, or the statistic is
            not defined. A column of several steps shows their average step: their
            summaries merged, with sums and counts divided by the number of steps,
            so that L2 is the root of the mean of squares. `min`, `max` and `linf`
            are those of all its steps.
        nonfinite: how many elements were NaN or infinite, in all steps together.
        steps: how many steps were measured.
        numbers: the columns' own numbers, of which those without a measured step are
            left out.
    """

    kind: Kind
    statistic: str
    sites: tuple[Site, ...]
    first: Steps
    last: Steps
    values: Values
    nonfinite: Values
    steps: Values
    numbers: Steps

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw it with matplotlib, which is an extra; returns the axes, see docs/notebooks.md."""
        axes: Axes = notebook().plot_heatmap(self, ax)
        return axes

    def _repr_html_(self) -> str:
        return notebook().heatmap_html(self)

    def __repr__(self) -> str:
        rows, columns = self.values.shape
        stretch = f", steps {self.first[0]} to {self.last[-1]}" if columns else ""
        return f"Heatmap({self.kind} {self.statistic}: {rows} sites x {columns} columns{stretch})"


def by_width(steps: Steps, most: int) -> Bucketing:
    """Columns of the same width, the narrowest of a few that makes at most so many of them.

    They begin at multiples of the width, so that those of a run in progress stay
    as they are while it grows, until all of them become wider.
    """
    width = 1
    while np.unique(steps // width).size > most:
        # 1, 2, 3, 4, 6, 8, 12, 16, 24, ...
        power = 1 << (width.bit_length() - 1)
        width = power + power // 2 if width == power > 1 else 2 * power
    return Bucketing(width)
