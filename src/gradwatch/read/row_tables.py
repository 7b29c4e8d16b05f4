"""Statistics of sites merged into rows, at the resolution that can be drawn."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import FIELDS, IDENTITY, UPDATE_RATIO, Kind, Site, Summary, statistics_of
from gradwatch.read.grid import FIRST, LAST, Bucketing
from gradwatch.read.members import check_statistic
from gradwatch.read.merged_rows import RowGrid, RowQuestion, Rows
from gradwatch.read.rank_choice import RankChoice
from gradwatch.read.series import average
from gradwatch.read.snapshot import Snapshot

Steps = NDArray[np.int64]
Values = NDArray[np.float64]

NOT_FINITE = ("nan", "posinf", "neginf")
_KEPT = 64


@dataclass(frozen=True, eq=False)
class RowTable:
    """Statistics of rows over stretches of steps.

    Attributes:
        first, last: the first and the last measured step of each column.
        numbers: the columns' own numbers, of which those without a measured step are
            left out.
        values: by statistic, rows by columns, of the average step: see `Heatmap`. At
            each step the sites of a row are merged.
        total: all that was merged, its fields being rows by columns; those that no
            statistic needed are as of an empty tensor.
        steps: how many steps were measured in each cell; a step counts once for a row.
        cell_first, cell_last: which was the first and the last of them; infinite
            where there is none.
    """

    first: Steps
    last: Steps
    numbers: Steps
    values: Mapping[str, Values]
    total: Summary
    steps: Values
    cell_first: Values
    cell_last: Values

    @property
    def nonfinite(self) -> Values:
        """How many elements were NaN or infinite, in all steps together."""
        return np.asarray(self.total.nan + self.total.posinf + self.total.neginf)


class RowTables:
    """Makes tables, and keeps of sealed files what they add to one."""

    def __init__(self) -> None:
        self._grids: OrderedDict[RowQuestion, RowGrid] = OrderedDict()
        self._lock = threading.Lock()

    def make(
        self,
        snapshot: Snapshot,
        kind: Kind,
        rows: Rows,
        names: Sequence[str],
        steps: Steps,
        stretch: tuple[int, int],
        bucketing: Bucketing,
        rank: RankChoice,
    ) -> RowTable:
        """See `Run.row_table`.

        Args:
            snapshot: the run.
            kind: of all sites of the rows.
            rows: which sites are merged.
            names: the statistics.
            steps: those of interest, ascending, all of them measured.
            stretch: the bounds within which they are all that there are.
            bucketing: which column a step falls into.
            rank: whose rows are meant.
        """
        for name in names:
            check_statistic(name, kind)
        statistics = [statistics_of(kind)[name] for name in names]
        buckets, starts = np.unique(bucketing.of(steps), return_index=True)
        ends = np.append(starts[1:], steps.size)[: starts.size] - 1

        def of(
            kind: Kind, chosen: Rows, needed: Sequence[str]
        ) -> tuple[Summary, dict[str, Values]]:
            fields = tuple(dict.fromkeys((*needed, *NOT_FINITE)))
            question = RowQuestion(
                rank, kind, chosen, fields, bucketing, stretch, snapshot.bounds_key
            )
            parts = self._grid(question).read(snapshot, question, buckets)
            columns = {
                field: parts.get(field, np.full(parts["steps"].shape, IDENTITY[i]))
                for i, field in enumerate(FIELDS)
            }
            return Summary(*columns.values()), parts

        total, parts = of(kind, rows, [field for each in statistics for field in each.fields])
        measured = parts["steps"]
        mean = average(total, measured)
        values: dict[str, Values] = {}
        with np.errstate(all="ignore"):
            for statistic in statistics:
                if statistic is UPDATE_RATIO:
                    weight, weighed = of(Kind.WEIGHT, _weights(rows, snapshot), ["sum_squares"])
                    size = np.sqrt(average(weight, weighed["steps"]).sum_squares)
                    ratio = np.sqrt(mean.sum_squares) / size
                    found = np.where((weighed["steps"] > 0) & (size > 0), ratio, np.nan)
                else:
                    found = statistic(mean)
                values[statistic.name] = np.where(measured > 0, found, np.nan)
        return RowTable(
            steps[starts],
            steps[ends],
            buckets,
            values,
            total,
            measured,
            parts[FIRST],
            parts[LAST],
        )

    def _grid(self, question: RowQuestion) -> RowGrid:
        with self._lock:
            grid = self._grids.setdefault(question, RowGrid())
            self._grids.move_to_end(question)
            while len(self._grids) > _KEPT:
                self._grids.popitem(last=False)
            return grid


def _weights(rows: Rows, snapshot: Snapshot) -> Rows:
    """The weights that are recorded of the variables whose updates are in the rows."""
    known = snapshot.numbers
    sites = tuple(
        tuple(w for site in row if (w := Site(Kind.WEIGHT, site.path)) in known)
        for row in rows.sites
    )
    return Rows(("weights", rows.key, len(known)), sites)
