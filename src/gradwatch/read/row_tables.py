"""Statistics of sites merged into rows, over columns of steps."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradwatch.core import UPDATE_RATIO, Kind, Statistic, Summary
from gradwatch.read.chosen_rows import RankChoice, measured_steps
from gradwatch.read.merged_cells import CachedCells, CellQuestion, Cells
from gradwatch.read.row_groups import RowGroups
from gradwatch.read.series import weights_of
from gradwatch.read.snapshot import Snapshot
from gradwatch.read.statistic_values import (
    average,
    fields_of,
    find_statistic,
    shown_values,
    values_of,
)
from gradwatch.read.steps import Bucketing, Steps, Stretch, Values, within

_KEPT = 64


@dataclass(frozen=True, eq=False)
class RowTable:
    """Statistics of rows over columns of steps; at each step the sites of a row are merged.

    Columns without a measured step are left out: `numbers` are those of the others. `values` are by
    statistic, of the average step: see `Heatmap`. `shown` are the same, but NaN or infinite where
    an element is. In `total`, fields that no statistic needed are
    as of an empty tensor. `steps` counts the steps of each cell, each once for a row; `cell_first`
    and `cell_last` are infinite where there is none.
    """

    first: Steps
    last: Steps
    numbers: Steps
    values: Mapping[str, Values]
    shown: Mapping[str, Values]
    total: Summary
    steps: Values
    cell_first: Values
    cell_last: Values

    @property
    def nonfinite(self) -> Values:
        """The number of NaN and infinite elements, in all steps together."""
        return np.asarray(self.total.nan + self.total.posinf + self.total.neginf)


class RowTables:
    """Makes tables, and keeps the part of each that comes from sealed files."""

    def __init__(self) -> None:
        self._cells: OrderedDict[CellQuestion, CachedCells] = OrderedDict()
        self._lock = threading.Lock()

    def make(
        self,
        snapshot: Snapshot,
        kind: Kind,
        rows: RowGroups,
        names: Sequence[str],
        bucketing: Bucketing,
        stretch: Stretch,
        rank: RankChoice,
    ) -> RowTable:
        """See `Run.row_table`."""
        statistics = [find_statistic(name, kind) for name in names]
        steps = within(measured_steps(snapshot, kind, rank), stretch)
        buckets, starts = np.unique(bucketing.of(steps), return_index=True)
        ends = np.append(starts[1:], steps.size)[: starts.size] - 1

        def read(kind: Kind, rows: RowGroups, statistics: Sequence[Statistic]) -> Cells:
            question = CellQuestion(
                rank, kind, rows, fields_of(statistics), bucketing, stretch, snapshot.bounds_key
            )
            return self._cached(question).read(snapshot, question, buckets)

        cells = read(kind, rows, statistics)
        weight = None
        if UPDATE_RATIO in statistics:
            sites = tuple(tuple(weights_of(own, snapshot)) for own in rows.sites)
            key = "weights", rows.key, len(snapshot.numbers)
            weights = read(Kind.WEIGHT, RowGroups(key, sites), [UPDATE_RATIO])
            weight = average(weights.total, weights.steps)
        mean = average(cells.total, cells.steps)
        values, shown = (
            {
                each.name: np.where(cells.steps > 0, compute(each, mean, weight), np.nan)
                for each in statistics
            }
            for compute in (values_of, shown_values)
        )
        return RowTable(
            steps[starts],
            steps[ends],
            buckets,
            values,
            shown,
            cells.total,
            cells.steps,
            cells.first,
            cells.last,
        )

    def _cached(self, question: CellQuestion) -> CachedCells:
        with self._lock:
            cells = self._cells.setdefault(question, CachedCells())
            self._cells.move_to_end(question)
            while len(self._cells) > _KEPT:
                self._cells.popitem(last=False)
            return cells
