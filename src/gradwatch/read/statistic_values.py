"""The values of statistics, from merged summaries."""

from collections.abc import Callable, Sequence

import numpy as np

from gradwatch.core import (
    FIELDS,
    STATISTIC_SYNONYMS,
    UPDATE_RATIO,
    Kind,
    Statistic,
    Summary,
    shown,
    statistics_of,
)
from gradwatch.read.steps import Values
from gradwatch.util import did_you_mean

NONFINITE_FIELDS = ("nan", "posinf", "neginf")


def find_statistic(name: str, kind: Kind) -> Statistic:
    allowed = statistics_of(kind)
    if name not in allowed:
        hint = did_you_mean(name, allowed, STATISTIC_SYNONYMS)
        raise ValueError(
            f"There is no statistic {name!r} of {kind}. {hint}Choose from: {', '.join(allowed)}"
        )
    return allowed[name]


def fields_of(statistics: Sequence[Statistic]) -> tuple[str, ...]:
    """The fields to read for some statistics, and to count elements that were not finite."""
    fields = (field for each in statistics for field in each.fields)
    return tuple(dict.fromkeys((*fields, *NONFINITE_FIELDS)))


def average(total: Summary, number: Values) -> Summary:
    """The average of so many summaries that were merged: what adds up is divided."""
    n = np.maximum(number, 1.0)
    bounds = {"min": total.min, "max": total.max}
    return Summary(*(bounds.get(name, getattr(total, name) / n) for name in FIELDS))


def values_of(statistic: Statistic, summary: Summary, weight: Summary | None = None) -> Values:
    """A statistic of summaries; the update ratio also takes the weights' summaries."""
    return _values(statistic.numpy, statistic, summary, weight)


def shown_values(statistic: Statistic, summary: Summary, weight: Summary | None = None) -> Values:
    """The same as it is shown: NaN or infinite if an element is."""
    return _values(lambda own: shown(statistic, own), statistic, summary, weight)


def _values(
    compute: Callable[[Summary], Values],
    statistic: Statistic,
    summary: Summary,
    weight: Summary | None,
) -> Values:
    with np.errstate(all="ignore"):
        values = np.asarray(compute(summary), np.float64)
        if statistic is UPDATE_RATIO and weight is not None:
            size = compute(weight)
            return np.where(size == 0, np.nan, values / size)
        return values
