"""The last value of each row of a table."""

import numpy as np

from gradwatch.core import Kind
from gradwatch.read.chosen_rows import RankChoice
from gradwatch.read.row_groups import RowGroups
from gradwatch.read.row_tables import RowTable
from gradwatch.read.run import Run
from gradwatch.read.steps import Bucketing, Values


def last_shown(
    run: Run,
    kind: Kind,
    rows: RowGroups,
    statistic: str,
    table: RowTable,
    rank: RankChoice = None,
) -> Values:
    """The value of each row at the last step that it was measured at; NaN if never.

    The rows' table has the average of a whole column instead.
    """
    ends = np.where(table.steps > 0, table.cell_last, -np.inf).max(axis=1, initial=-np.inf)
    found = np.full(ends.shape, np.nan)
    for end in np.unique(ends[np.isfinite(ends)]):
        at = run.row_table(kind, rows, [statistic], Bucketing(1), (int(end), int(end)), rank=rank)
        found[ends == end] = at.shown[statistic][ends == end, -1]
    return found
