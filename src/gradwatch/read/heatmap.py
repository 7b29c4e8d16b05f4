"""A statistic of many sites over a whole run, at the resolution that can be drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradwatch.core import Kind, Site
from gradwatch.read.row_tables import RowTable
from gradwatch.read.steps import Steps, Values
from gradwatch.util.display import notebook

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
            are those of all its steps. They are of the finite elements.
        shown: the same as it is drawn: NaN or infinite where an element is.
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
    shown: Values
    nonfinite: Values
    steps: Values
    numbers: Steps

    @classmethod
    def from_table(cls, statistic: str, sites: tuple[Site, ...], table: RowTable) -> Heatmap:
        """The heatmap of a table in which each site has a row."""
        return cls(
            sites[0].kind,
            statistic,
            sites,
            table.first,
            table.last,
            table.values[statistic],
            table.shown[statistic],
            table.nonfinite,
            table.steps,
            table.numbers,
        )

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
