"""The least, the median and the greatest of what ranks have of a number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import VALUE, Site
from gradwatch.read import Bucketing, Run

Values = NDArray[np.float64]


def spread(values: Values) -> tuple[Values, Values, Values]:
    """The least, the median and the greatest of each column's finite values; NaN without any."""
    finite = np.where(np.isfinite(values), values, np.nan)
    known = ~np.isnan(finite).all(axis=0)
    found = np.full((3, values.shape[1]), np.nan)
    if known.any():
        own = finite[:, known]
        found[:, known] = np.nanmin(own, 0), np.nanmedian(own, 0), np.nanmax(own, 0)
    return found[0], found[1], found[2]


def bands(
    run: Run,
    sites: Sequence[Site],
    bucketing: Bucketing,
    stretch: tuple[int, int],
    buckets: NDArray[np.int64],
) -> dict[Site, tuple[Values, Values, Values]]:
    """Of some numbers the least, median and greatest of all ranks, for these columns."""
    found = {}
    for site in sites:
        table = run.rank_table(site.kind, site.path, VALUE.name, bucketing, stretch)
        place = np.searchsorted(buckets, table.numbers)
        known = np.isin(table.numbers, buckets)
        band = []
        for one in spread(table.values):
            wide = np.full(buckets.size, np.nan)
            wide[place[known]] = one[known]
            band.append(wide)
        found[site] = (band[0], band[1], band[2])
    return found
