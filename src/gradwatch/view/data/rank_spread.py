"""The lowest, the median and the highest value of a number over all ranks."""

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import VALUE, Site
from gradwatch.read import Bucketing, Run

Values = NDArray[np.float64]
Spread = dict[str, Values]
"""`low`, `median` and `high`, each of a value for every column."""


def spread(values: Values) -> Spread:
    """The spread of each column's finite values; NaN without any."""
    finite = np.where(np.isfinite(values), values, np.nan)
    known = ~np.isnan(finite).all(axis=0)
    found: Spread = {}
    for name, reduce in (("low", np.nanmin), ("median", np.nanmedian), ("high", np.nanmax)):
        found[name] = np.full(values.shape[1], np.nan)
        if known.any():
            found[name][known] = reduce(finite[:, known], axis=0)
    return found


def spread_in(
    run: Run,
    site: Site,
    bucketing: Bucketing,
    stretch: tuple[int, int],
    columns: NDArray[np.int64],
) -> Spread:
    """The spread of a number in the columns of these numbers."""
    table = run.rank_table(site.kind, site.path, VALUE.name, bucketing, stretch)
    known = np.isin(table.numbers, columns)
    values = np.full((len(table.values), columns.size), np.nan)
    values[:, np.searchsorted(columns, table.numbers[known])] = table.values[:, known]
    return spread(values)
