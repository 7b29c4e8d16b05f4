"""Numbers as a page spells them."""

import numpy as np

from gradwatch.read import Bucketing, RowGroups


def floats(texts):
    """The numbers; NaN where nothing is written."""
    return [float(text) if text else float("nan") for text in texts]


def same(shown, true):
    """Whether numbers are equal, digit by digit; NaN where there is none."""
    return np.array_equal(np.array(floats(shown)), np.asarray(true, float), equal_nan=True)


def shown_series(run, kind, path, statistic="l2"):
    """The steps and values of a site, layer or block as all views show them.

    Other than in `Run.series`, a value is NaN or infinite where an element is.
    """
    rows = RowGroups.of([run.members(kind, path)])
    table = run.row_table(kind, rows, [statistic], Bucketing(1))
    measured = table.steps[0] > 0
    return table.first[measured], table.shown[statistic][0, measured]
