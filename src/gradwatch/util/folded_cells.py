"""The cells of table rows that stand for several layers each."""

from collections.abc import Sequence
from math import inf, isfinite, isnan, log
from statistics import median

from gradwatch.util.fold_names import NameFold
from gradwatch.util.words import compact, percent


def cell_of(values: Sequence[float | None], *, is_share: bool = False) -> str:
    """The value of a row, or the smallest and the largest of several; empty without any.

    NaN counts as the largest.

    >>> from gradwatch.util.folded_cells import cell_of
    >>> cell_of([0.25]), cell_of([1.0, None, 0.25]), cell_of([float("nan"), 0.25])
    ('0.250', '0.25…1.0', '0.25…nan')
    """
    known = sorted((v for v in values if v is not None), key=lambda v: inf if isnan(v) else v)
    if not known:
        return ""
    if len(known) == 1:
        return percent(known[0]) if is_share else compact(known[0])
    ends = [percent(v, 0) if is_share else compact(v, 2) for v in (known[0], known[-1])]
    return "…".join(dict.fromkeys(ends))


def outliers(values: Sequence[float | None], folds: Sequence[NameFold]) -> list[int]:
    """The member of each fold that is least like the layers of the table.

    That is one whose value is not finite, or whose ratio to the median is the largest or smallest.
    """
    known = [value for value in values if value is not None and isfinite(value) and value > 0]
    middle = median(known) if known else 1.0

    def distance(i: int) -> float:
        value = values[i]
        if value is None:
            return -1.0
        return abs(log(value / middle)) if isfinite(value) and value > 0 else inf

    return [max(fold.members, key=distance) for fold in folds]
