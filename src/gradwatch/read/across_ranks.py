"""A statistic of one thing on all ranks: which of them is unlike the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import FIELDS, IDENTITY, UPDATE_RATIO, Kind, Site, Summary, statistics_of
from gradwatch.read.database import Columns
from gradwatch.read.grid import Bucketing, merges
from gradwatch.read.members import check_statistic, kind_of, members
from gradwatch.read.row_tables import NOT_FINITE
from gradwatch.read.series import average, of_sites
from gradwatch.read.snapshot import Snapshot

Steps = NDArray[np.int64]
Values = NDArray[np.float64]


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
    """A statistic over stretches of steps, a row for each rank.

    Attributes:
        numbers: the columns' own numbers, of which those without a measured step are left out.
        first, last: the first and the last step of each column that any rank has measured.
        ranks: those that have measured it, ascending.
        values: ranks by columns, of the average step as in `Heatmap`; NaN where a rank has none.
        nonfinite: how many elements were NaN or infinite, in all steps together.
    """

    numbers: Steps
    first: Steps
    last: Steps
    ranks: tuple[int, ...]
    values: Values
    nonfinite: Values


def across_ranks(
    snapshot: Snapshot,
    kind_name: Kind | str,
    path: str,
    name: str,
    stretch: tuple[int, int],
) -> RankSeries:
    """A statistic of some sites, merged, on each rank by itself; see `Run.across_ranks`."""
    table = rank_table(snapshot, kind_name, path, name, Bucketing(1), stretch)
    return RankSeries(table.first, table.ranks, table.values)


def rank_table(
    snapshot: Snapshot,
    kind_name: Kind | str,
    path: str,
    name: str,
    bucketing: Bucketing,
    stretch: tuple[int, int],
) -> RankTable:
    """The same with columns of your own choice; see `Run.rank_table`."""
    kind = kind_of(kind_name, snapshot.sites)
    check_statistic(name, kind)
    statistic = statistics_of(kind)[name]
    sites = members(kind, path, snapshot.sites, snapshot.groups)
    fields = tuple(dict.fromkeys((*statistic.fields, *NOT_FINITE)))
    rows = _cells(snapshot, sites, fields, bucketing, stretch)
    mean = average(_summary(rows, fields), rows["steps"])
    with np.errstate(all="ignore"):
        if statistic is UPDATE_RATIO:
            values = np.sqrt(mean.sum_squares) / _weights(snapshot, sites, rows, bucketing, stretch)
        else:
            values = np.asarray(statistic(mean), np.float64)
    if statistic is UPDATE_RATIO:
        # As everywhere: what has no weight beside it has no ratio, and is not shown.
        rows = {column: of[np.isfinite(values)] for column, of in rows.items()}
        values = values[np.isfinite(values)]
    return _table(rows, values)


def _table(rows: Columns, values: Values) -> RankTable:
    ranks, row = np.unique(rows["rank"].astype(np.int64), return_inverse=True)
    buckets, column = np.unique(rows["bucket"].astype(np.int64), return_inverse=True)
    table = np.full((ranks.size, buckets.size), np.nan)
    table[row, column] = values
    bad = np.zeros(table.shape)
    bad[row, column] = sum(rows[field] for field in NOT_FINITE)
    first = np.full(buckets.size, np.iinfo(np.int64).max)
    last = np.full(buckets.size, np.iinfo(np.int64).min)
    np.minimum.at(first, column, rows["first"].astype(np.int64))
    np.maximum.at(last, column, rows["last"].astype(np.int64))
    return RankTable(buckets, first, last, tuple(ranks.tolist()), table, bad)


def _cells(
    snapshot: Snapshot,
    sites: Sequence[Site],
    fields: Sequence[str],
    bucketing: Bucketing,
    stretch: tuple[int, int],
) -> Columns:
    """What each rank has of some sites in a column: the fields of its steps merged.

    Of a step it is what was measured as a whole, and where there is none, its micro-batches.
    """
    where, parameters = of_sites(snapshot, sites)
    merged = merges(fields)
    source = f"SELECT rank, step, {merged} FROM _summaries WHERE {where} AND step BETWEEN ? AND ?"
    if snapshot.has_parts:
        source = source.replace("SELECT rank", "SELECT micro_batch IS NOT NULL AS part, rank", 1)
        source += (
            " GROUP BY rank, step, part "
            "QUALIFY row_number() OVER (PARTITION BY rank, step ORDER BY part) = 1"
        )
    else:
        source += " GROUP BY rank, step"
    return snapshot.database.fetch(
        f"SELECT rank, {bucketing.sql()} AS bucket, count(*)::DOUBLE AS steps, "
        f"min(step) AS first, max(step) AS last, {merged} FROM ({source}) GROUP BY rank, bucket",
        [*parameters, *stretch],
    )


def _summary(rows: Columns, fields: Sequence[str]) -> Summary:
    """The fields that were asked for; the others as of nothing."""
    size = rows["rank"].size
    return Summary(
        *(
            rows[field] if field in fields else np.full(size, IDENTITY[i])
            for i, field in enumerate(FIELDS)
        )
    )


def _weights(
    snapshot: Snapshot,
    updates: Sequence[Site],
    rows: Columns,
    bucketing: Bucketing,
    stretch: tuple[int, int],
) -> Values:
    """For each row of updates, the norm of the same rank's weights in that column; or else NaN."""
    known = set(snapshot.sites)
    weights = [s for u in updates if (s := Site(Kind.WEIGHT, u.path)) in known]
    if not weights:
        return np.full(rows["rank"].size, np.nan)
    found = _cells(snapshot, weights, ("sum_squares",), bucketing, stretch)
    norms = np.sqrt(found["sum_squares"] / found["steps"]).tolist()
    keys = zip(found["rank"].tolist(), found["bucket"].tolist(), strict=True)
    norm_of = dict(zip(keys, norms, strict=True))
    wanted = zip(rows["rank"].tolist(), rows["bucket"].tolist(), strict=True)
    sizes = np.array([norm_of.get(key, np.nan) for key in wanted], np.float64)
    return np.where(sizes > 0, sizes, np.nan)
