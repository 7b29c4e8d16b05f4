"""One statistic on all ranks, to see which rank is unlike the others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradwatch.core import UPDATE_RATIO, Kind, Site, Statistic
from gradwatch.read.chosen_rows import ChosenRows
from gradwatch.read.database import Columns
from gradwatch.read.members import kind_of, members
from gradwatch.read.merged_cells import Cells, merge_cells
from gradwatch.read.series import weights_of
from gradwatch.read.snapshot import Snapshot
from gradwatch.read.statistic_values import average, fields_of, find_statistic, values_of
from gradwatch.read.steps import Bucketing, Steps, Stretch, Values


@dataclass(frozen=True, eq=False)
class RankSeries:
    """A statistic over steps, a row for each rank.

    Attributes:
        steps: at which any rank has measured it, ascending.
        ranks: those that have measured it at any of these steps, ascending.
        values: ranks by steps; NaN where a rank has none, or it is NaN.
    """

    steps: Steps
    ranks: tuple[int, ...]
    values: Values

    def __repr__(self) -> str:
        stretch = f", steps {self.steps[0]} to {self.steps[-1]}" if self.steps.size else ""
        return f"RankSeries({len(self.ranks)} ranks x {self.steps.size} steps{stretch})"


@dataclass(frozen=True, eq=False)
class RankTable:
    """A statistic over columns of steps, a row for each rank that has measured it.

    Columns without a measured step are left out; `numbers` are the numbers of the others, `first`
    and `last` the first and the last step of each that any rank has measured. Values are of the
    average step as in `Heatmap`; NaN where a rank has none. `nonfinite` counts elements in all
    steps together.
    """

    numbers: Steps
    first: Steps
    last: Steps
    ranks: tuple[int, ...]
    values: Values
    nonfinite: Values


def rank_table(
    snapshot: Snapshot,
    kind_name: Kind | str,
    path: str,
    name: str,
    bucketing: Bucketing,
    stretch: Stretch,
) -> RankTable:
    """See `Run.rank_table`."""
    kind = kind_of(kind_name, snapshot.sites)
    statistic = find_statistic(name, kind)
    sites = members(kind, path, snapshot.sites, snapshot.groups)

    def read(sites: Sequence[Site], statistic: Statistic) -> Columns:
        chosen = ChosenRows(snapshot, dict.fromkeys(sites, 0), None, stretch, by_rank=True)
        fields = fields_of([statistic])
        return merge_cells(chosen, chosen.sql(fields), fields, bucketing)

    found = read(sites, statistic)
    ranks, buckets = np.unique(found["row"]), np.unique(found["bucket"])

    def arrange(found: Columns) -> Cells:
        known = np.isin(found["row"], ranks)
        own = {column: values[known] for column, values in found.items()}
        return Cells.arrange(
            {**own, "row": np.searchsorted(ranks, own["row"])}, ranks.size, buckets
        )

    cells, weight = arrange(found), None
    if statistic is UPDATE_RATIO:
        weights = arrange(read(weights_of(sites, snapshot), UPDATE_RATIO))
        weight = average(weights.total, weights.steps)
    values = values_of(statistic, average(cells.total, cells.steps), weight)
    # An update without a weight has no ratio, and is not shown.
    shown = (cells.steps > 0) & (np.isfinite(values) if statistic is UPDATE_RATIO else True)
    rows, columns = shown.any(axis=1), shown.any(axis=0)
    total = cells.total
    nonfinite = np.where(shown, total.nan + total.posinf + total.neginf, 0.0)
    first = np.where(shown, cells.first, np.inf).min(axis=0, initial=np.inf)
    last = np.where(shown, cells.last, -np.inf).max(axis=0, initial=-np.inf)
    return RankTable(
        buckets[columns].astype(np.int64),
        first[columns].astype(np.int64),
        last[columns].astype(np.int64),
        tuple(ranks[rows].tolist()),
        np.where(shown, values, np.nan)[rows][:, columns],
        nonfinite[rows][:, columns],
    )
