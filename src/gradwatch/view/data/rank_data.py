"""The processes of a parallel training: their statuses, and one number on all of them."""

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import VALUE
from gradwatch.read import RankTable
from gradwatch.view.data.numbers import rank_number_sites
from gradwatch.view.data.plain import Answer, doubles, sparse, whole
from gradwatch.view.data.rank_spread import spread
from gradwatch.view.data.run_view import RunView, Window

Values = NDArray[np.float64]


def processes(view: RunView) -> Answer | None:
    """`Processes` of `types.ts`; None for a run of one process."""
    each = view.run.rank_statuses
    if len(each) < 2:
        return None
    names = ("rank", "first_step", "first_time", "last_step", "last_time")
    sites = rank_number_sites(view)
    return {
        **{name: [getattr(one, name) for one in each] for name in names},
        "status": [str(one.status) for one in each],
        "numbers": [{"kind": str(site.kind), "path": site.path} for site in sites],
    }


def ranks(view: RunView, kind: str, path: str, window: Window, max_rows: int) -> Answer:
    """`RanksData` of `types.ts`; neighbouring ranks share a row if there are more than `max_rows`.

    ValueError is raised for a site that is not a number.
    """
    chosen = view.kind(kind)
    steps = view.run.steps(chosen)
    window = window.around(steps)
    bucketing = window.bucketing(steps)
    table = view.run.rank_table(chosen, path, VALUE.name, bucketing, window.stretch)
    values, nonfinite, size = merged_rows(table, max_rows)
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
        "nonfinite": sparse(nonfinite),
        **{name: doubles(each) for name, each in spread(table.values).items()},
    }


def merged_rows(table: RankTable, max_rows: int) -> tuple[Values, Values, int]:
    """Values and counts of nonfinite elements in few rows, and how many ranks share a row.

    A shared row has, in each column, the value that is furthest from the median of all ranks: an
    average would hide the rank that differs from the others.
    """
    count, columns = table.values.shape
    size = max(1, -(-count // max(1, max_rows)))
    if size == 1:
        return table.values, table.nonfinite, 1
    pad = [(0, -count % size), (0, 0)]
    shape = (-1, size, columns)
    values = np.pad(table.values, pad, constant_values=np.nan).reshape(shape)
    nonfinite = np.pad(table.nonfinite, pad).reshape(shape)
    distance = np.abs(values - spread(table.values)["median"])
    furthest = np.where(np.isfinite(distance), distance, -1.0).argmax(axis=1)
    chosen = np.take_along_axis(values, furthest[:, None], axis=1)[:, 0]
    return chosen, nonfinite.sum(axis=1), size
