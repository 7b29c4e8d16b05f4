"""A statistic of many sites over a whole run, at the resolution that can be drawn."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gradwatch.sites import Kind, Site
from gradwatch.store.reader.grid import Bucketing, Grid, Question
from gradwatch.store.reader.members import check_statistic
from gradwatch.store.reader.series import UPDATE_RATIO, VALUE, more_statistics, value_of
from gradwatch.store.reader.snapshot import Snapshot
from gradwatch.summary import FIELDS, IDENTITY, Summary, statistic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Steps = NDArray[np.int64]
Values = NDArray[np.float64]

_ALL = ("count", "nan", "posinf", "neginf")
NEEDED: dict[str, tuple[str, ...]] = {
    "count": ("count",),
    "nan": ("nan",),
    "posinf": ("posinf",),
    "neginf": ("neginf",),
    "zeros": ("zeros",),
    "sum": ("sum",),
    "l1": ("sum_abs",),
    "l2": ("sum_squares",),
    "linf": (*_ALL, "min", "max"),
    "rms": (*_ALL, "sum_squares"),
    "mean": (*_ALL, "sum"),
    "std": (*_ALL, "sum", "sum_squares", "min", "max"),
    "min": (*_ALL, "min"),
    "max": (*_ALL, "max"),
    VALUE: ("nan", "posinf", "neginf", "sum"),
    UPDATE_RATIO: ("sum_squares",),
}
"""The fields that a statistic is made of: the others need not be read."""

_KEPT = 64


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
        from gradwatch.view.notebook.plots.run import plot_heatmap

        return plot_heatmap(self, ax)

    def _repr_html_(self) -> str:
        from gradwatch.view.notebook.comparison import heatmap_html

        return heatmap_html(self)

    def __repr__(self) -> str:
        rows, columns = self.values.shape
        stretch = f", steps {self.first[0]} to {self.last[-1]}" if columns else ""
        return f"Heatmap({self.kind} {self.statistic}: {rows} sites x {columns} columns{stretch})"


class Heatmaps:
    """Makes heatmaps, and keeps of sealed files what they add to one."""

    def __init__(self) -> None:
        self._grids: OrderedDict[Question, Grid] = OrderedDict()
        self._lock = threading.Lock()

    def make(
        self,
        snapshot: Snapshot,
        sites: Sequence[Site],
        name: str,
        steps: Steps,
        stretch: tuple[int, int],
        bucketing: Bucketing,
        rank: int,
    ) -> Heatmap:
        """See `Run.heatmap`.

        Args:
            snapshot: the run.
            sites: the rows, all of one kind.
            name: the statistic.
            steps: those of interest, ascending, all of them measured.
            stretch: the bounds within which they are all that there are.
            bucketing: which column a step falls into.
            rank: the process of a parallel training.
        """
        kind = sites[0].kind
        check_statistic(name, kind, more_statistics(kind))
        buckets, starts = np.unique(bucketing.of(steps), return_index=True)
        ends = np.append(starts[1:], steps.size) - 1

        def of(chosen: Sequence[Site]) -> tuple[Summary, Values]:
            fields = tuple(dict.fromkeys((*NEEDED[name], "nan", "posinf", "neginf")))
            question = Question(
                rank, tuple(chosen), fields, bucketing, stretch, snapshot.bounds_key
            )
            parts = self._grid(question).read(snapshot, question, buckets)
            columns = {
                field: parts.get(field, np.full(parts["steps"].shape, IDENTITY[i]))
                for i, field in enumerate(FIELDS)
            }
            return Summary(*columns.values()), parts["steps"]

        total, measured = of(sites)
        with np.errstate(all="ignore"):
            if name == VALUE:
                values = value_of(average(total, measured))
            elif name == UPDATE_RATIO:
                weight, weighed = of([Site(Kind.WEIGHT, site.path) for site in sites])
                size = np.sqrt(average(weight, weighed).sum_squares)
                change = np.sqrt(average(total, measured).sum_squares)
                values = np.where((weighed > 0) & (size > 0), change / size, np.nan)
            else:
                values = statistic(name, average(total, measured))
        return Heatmap(
            kind,
            name,
            tuple(sites),
            steps[starts],
            steps[ends],
            np.where(measured > 0, values, np.nan),
            total.nan + total.posinf + total.neginf,
            measured,
            buckets,
        )

    def _grid(self, question: Question) -> Grid:
        with self._lock:
            grid = self._grids.setdefault(question, Grid())
            self._grids.move_to_end(question)
            while len(self._grids) > _KEPT:
                self._grids.popitem(last=False)
            return grid


def average(total: Summary, steps: Values) -> Summary:
    """The average step's summary: what adds up is divided by the number of steps."""
    n = np.maximum(steps, 1.0)
    bounds = {"min": total.min, "max": total.max}
    return Summary(*(bounds.get(name, getattr(total, name) / n) for name in FIELDS))


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
