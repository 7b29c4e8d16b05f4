"""The processes of a parallel training: how each stands, and one number on all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import VALUE
from gradwatch.read import RankTable
from gradwatch.view.data.numbers import own_numbers
from gradwatch.view.data.plain import Answer, doubles, whole
from gradwatch.view.data.rank_spread import spread
from gradwatch.view.data.run_view import RunView, Window

Values = NDArray[np.float64]


def processes(view: RunView) -> Answer | None:
    """`Processes` of `types.ts`; None for a run of one process."""
    each = view.run.rank_statuses
    if len(each) < 2:
        return None
    return {
        "rank": [one.rank for one in each],
        "status": [str(one.status) for one in each],
        "first_step": [one.first_step for one in each],
        "first_time": [one.first_time for one in each],
        "last_step": [one.last_step for one in each],
        "last_time": [one.last_time for one in each],
        "numbers": [{"kind": str(site.kind), "path": site.path} for site in own_numbers(view)],
    }


def ranks(view: RunView, kind: str, path: str, window: Window, rows: int) -> Answer:
    """`RanksData` of `types.ts`.

    Args:
        view: the run.
        kind, path: of which number.
        window: which columns.
        rows: at most so many: neighbouring ranks share a row if there are more.

    Raises:
        NotRecordedError: there is no such number.
        ValueError: it is no number.
    """
    chosen = view.kind(kind)
    bucketing = window.bucketing(view.run.steps(chosen))
    table = view.run.rank_table(chosen, path, VALUE.name, bucketing, window.stretch)
    values, nonfinite, size = merged_rows(table, rows)
    low, middle, high = spread(table.values)
    return {
        "kind": kind,
        "path": path,
        "first": whole(table.first),
        "last": whole(table.last),
        "width": bucketing.span,
        "complete": True,
        "ranks": list(table.ranks),
        "together": size,
        "values": doubles(values),
        "nonfinite": [
            [int(row), int(column), int(nonfinite[row, column])]
            for row, column in zip(*np.nonzero(nonfinite), strict=True)
        ],
        "low": doubles(low),
        "median": doubles(middle),
        "high": doubles(high),
    }


def merged_rows(table: RankTable, most: int) -> tuple[Values, Values, int]:
    """Values and counts of what is not finite in at most so many rows; how many ranks share one.

    Of ranks that share a row, that one is shown in a column which is furthest from the median of
    all ranks: averaged, the one that is unlike the others would not be seen.
    """
    count, columns = table.values.shape
    size = max(1, -(-count // max(1, most)))
    if size == 1:
        return table.values, table.nonfinite, 1
    groups = -(-count // size)
    padded = np.full((groups * size, columns), np.nan)
    padded[:count] = table.values
    bad = np.zeros(padded.shape)
    bad[:count] = table.nonfinite
    together = padded.reshape(groups, size, columns)
    away = np.abs(together - spread(table.values)[1])
    furthest = np.where(np.isfinite(away), away, -1.0).argmax(axis=1)
    values = np.take_along_axis(together, furthest[:, None], axis=1)[:, 0]
    return values, bad.reshape(groups, size, columns).sum(axis=1), size
