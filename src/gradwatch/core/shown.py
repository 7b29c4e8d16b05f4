"""Statistics as they are shown: one rule for tensors with elements that are not finite.

A statistic is of the finite elements, and so small, or 0, where a tensor explodes. What is shown
of it is of all elements, as NumPy has it: NaN if one of them is NaN, or else infinite.
"""

import numpy as np
from numpy.typing import NDArray

from gradwatch.core.statistics import VALUE, Statistic, finite
from gradwatch.core.summary import Summary

Array = NDArray[np.float64]


def shown(statistic: Statistic, summary: Summary) -> Array:
    """The statistic, but NaN or infinite where an element is; counts are as they are.

    A signed statistic has the sign of the infinite elements, and is NaN if they have both.

    >>> from gradwatch.core import STATISTICS, Summary, shown
    >>> [float(shown(STATISTICS["l2"], Summary.of(x)))
    ...  for x in ([3.0, 4.0], [3.0, float("nan")], [3.0, -float("inf")])]
    [5.0, nan, inf]
    """
    values = np.asarray(statistic(summary), np.float64)
    if statistic.is_count or statistic is VALUE:
        return values
    infinite = np.where(summary.posinf > 0, np.inf, -np.inf)
    if statistic.scale == "signed":
        infinite = np.where((summary.posinf > 0) & (summary.neginf > 0), np.nan, infinite)
    else:
        infinite = np.abs(infinite)
    values = np.where(summary.posinf + summary.neginf > 0, infinite, values)
    return np.where(summary.nan > 0, np.nan, values)


def shown_sql(statistic: Statistic) -> str:
    """The same as an expression over the columns of the table `summaries`."""
    if statistic.is_count or statistic is VALUE:
        return statistic.sql
    signed = statistic.scale == "signed"
    both = "WHEN posinf > 0 AND neginf > 0 THEN 'nan'::DOUBLE " if signed else ""
    below = "-inf" if signed else "inf"
    return (
        f"CASE WHEN nan > 0 THEN 'nan'::DOUBLE {both}WHEN posinf > 0 THEN 'inf'::DOUBLE "
        f"WHEN neginf > 0 THEN '{below}'::DOUBLE ELSE {statistic.name} END"
    )


def zero_share(summary: Summary) -> Array:
    """The share of elements that are 0; NaN if there are none, or none is finite."""
    with np.errstate(all="ignore"):
        return np.where(finite(summary) > 0, summary.zeros / summary.count, np.nan)
