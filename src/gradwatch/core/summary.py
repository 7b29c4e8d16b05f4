"""The algebra: a tensor's summary, how two merge, and what follows from one.

A `Summary` holds a few numbers about a tensor. Two summaries merge into the
summary of the two tensors laid side by side, so a layer, a model, a set of
replicas or a stretch of time is measured by merging, never by special code.

The fields may be scalars or arrays of one shape: a single tensor and a whole
table of tensors go through the same functions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# How each field merges; the order is also the layout of a packed row.
_ADD, _MIN, _MAX = "add", "min", "max"
_MERGE = {
    "count": _ADD,
    "nan": _ADD,
    "posinf": _ADD,
    "neginf": _ADD,
    "zeros": _ADD,
    "sum": _ADD,
    "sum_abs": _ADD,
    "sum_squares": _ADD,
    "min": _MIN,
    "max": _MAX,
}
FIELDS: tuple[str, ...] = tuple(_MERGE)
IDENTITY: Array = np.array(
    [{_ADD: 0.0, _MIN: np.inf, _MAX: -np.inf}[how] for how in _MERGE.values()]
)


@dataclass(frozen=True, eq=False)
class Summary:
    """What is kept of a tensor; the numbers are float64, exact for counts to 2^53.

    `sum`, `sum_abs`, `sum_squares`, `min` and `max` are over the finite
    elements. With no finite element `min` is +inf and `max` is -inf, which is
    what makes merging work; the statistics `minimum` and `maximum` say NaN.
    Elements beyond 1e154, which only a float64 tensor can have, make
    `sum_squares` infinite, and with it the L2 norm.

    Example:

    >>> import numpy as np
    >>> from gradwatch.core.summary import Summary, l2
    >>> both = Summary.of(np.array([3.0])).merge(Summary.of(np.array([4.0])))
    >>> float(l2(both))
    5.0
    """

    count: Array
    nan: Array
    posinf: Array
    neginf: Array
    zeros: Array
    sum: Array
    sum_abs: Array
    sum_squares: Array
    min: Array
    max: Array

    @classmethod
    def of(cls, tensor: Any) -> Summary:
        """The summary of an array, by the float64 NumPy reference."""
        from gradwatch.core.reference import summarize

        return cls.unpack(summarize(tensor))

    @classmethod
    def empty(cls, shape: tuple[int, ...] = ()) -> Summary:
        """The identity of `merge`: the summary of a tensor without elements."""
        return cls.unpack(np.broadcast_to(IDENTITY, (*shape, len(FIELDS))).copy())

    @classmethod
    def unpack(cls, rows: Array) -> Summary:
        """From packed rows, whose last axis runs over `FIELDS`."""
        rows = np.asarray(rows, np.float64)
        if rows.shape[-1:] != (len(FIELDS),):
            raise ValueError(
                f"A packed summary has {len(FIELDS)} columns. Received: shape={rows.shape}"
            )
        return cls(*np.moveaxis(rows, -1, 0))

    def pack(self) -> Array:
        """As packed rows, the inverse of `unpack`."""
        return np.stack([getattr(self, name) for name in FIELDS], axis=-1)

    def __getitem__(self, index: Any) -> Summary:
        return Summary(*(np.asarray(getattr(self, f.name))[index] for f in fields(self)))

    def merge(self, other: Summary) -> Summary:
        """The summary of both tensors together."""
        with np.errstate(over="ignore"):  # See above on float64's largest.
            return Summary(
                *(
                    _BINARY[how](getattr(self, name), getattr(other, name))
                    for name, how in _MERGE.items()
                )
            )

    def merge_all(self) -> Summary:
        """All summaries of a table merged into one."""
        with np.errstate(over="ignore"):
            return Summary(*(_REDUCE[how](getattr(self, name)) for name, how in _MERGE.items()))

    def merge_by(self, groups: Sequence[int] | NDArray[np.intp], count: int) -> Summary:
        """The summaries of a table merged group by group.

        Args:
            groups: for each summary, the number of its group.
            count: how many groups there are.
        """
        merged = Summary.empty((count,))
        index = np.asarray(groups, np.intp)
        with np.errstate(over="ignore"):
            for name, how in _MERGE.items():
                _BINARY[how].at(getattr(merged, name), index, getattr(self, name))
        return merged

    @classmethod
    def merged_runs(cls, table: Array, starts: NDArray[np.intp]) -> Summary:
        """The summaries of tables, merged neighbours with neighbours.

        Args:
            table: its last axis but one runs over `FIELDS`, the last over the summaries.
            starts: where each run of neighbours begins, ascending, the first at 0.
        """
        fields: list[Array] = []
        with np.errstate(over="ignore"):
            for how, same in itertools.groupby(_MERGE.values()):
                rows = slice(len(fields), len(fields) + len(list(same)))
                merged = _BINARY[how].reduceat(table[..., rows, :], starts, axis=-1)
                fields.extend(np.moveaxis(merged, -2, 0))
        return cls(*fields)


_BINARY: dict[str, np.ufunc] = {_ADD: np.add, _MIN: np.minimum, _MAX: np.maximum}
_REDUCE: dict[str, Callable[..., Any]] = {
    _ADD: np.sum,
    _MIN: lambda a: np.min(a, initial=np.inf),
    _MAX: lambda a: np.max(a, initial=-np.inf),
}


def merge(summaries: Iterable[Summary]) -> Summary:
    """Any number of summaries merged; the empty summary for none."""
    total = Summary.empty()
    for summary in summaries:
        total = total.merge(summary)
    return total


def finite(s: Summary) -> Array:
    """Number of finite elements."""
    return s.count - s.nan - s.posinf - s.neginf


def l1(s: Summary) -> Array:
    """Sum of absolute values of the finite elements."""
    return s.sum_abs


def l2(s: Summary) -> Array:
    """Euclidean (Frobenius) norm of the finite elements."""
    return np.sqrt(s.sum_squares)


def linf(s: Summary) -> Array:
    """Largest absolute value of the finite elements; NaN without any."""
    return _defined(s, np.maximum(np.abs(s.min), np.abs(s.max)))


def mean(s: Summary) -> Array:
    """Mean of the finite elements; NaN without any."""
    return _per_element(s, s.sum)


def rms(s: Summary) -> Array:
    """Root mean square of the finite elements; NaN without any."""
    return np.sqrt(_per_element(s, s.sum_squares))


def std(s: Summary) -> Array:
    """Population standard deviation of the finite elements; NaN without any.

    It comes from the moments, so its absolute error is up to about 1e-8 times
    the RMS; a constant tensor gives exactly 0.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # See Summary on float64's largest.
        variance = _per_element(s, s.sum_squares) - mean(s) ** 2
    return np.where(s.min == s.max, 0.0, np.sqrt(np.maximum(variance, 0.0)))


def minimum(s: Summary) -> Array:
    """Smallest finite element; NaN without any."""
    return _defined(s, s.min)


def maximum(s: Summary) -> Array:
    """Largest finite element; NaN without any."""
    return _defined(s, s.max)


def _defined(s: Summary, values: Array) -> Array:
    return np.where(finite(s) > 0, values, np.nan)


def _per_element(s: Summary, values: Array) -> Array:
    n = finite(s)
    return np.where(n > 0, values / np.where(n > 0, n, 1.0), np.nan)


STATISTICS: dict[str, Callable[[Summary], Array]] = {
    "count": lambda s: s.count,
    "nan": lambda s: s.nan,
    "posinf": lambda s: s.posinf,
    "neginf": lambda s: s.neginf,
    "zeros": lambda s: s.zeros,
    "sum": lambda s: s.sum,
    "l1": l1,
    "l2": l2,
    "linf": linf,
    "rms": rms,
    "mean": mean,
    "std": std,
    "min": minimum,
    "max": maximum,
}
"""Every statistic a user can name, as a function of a `Summary`."""

COUNTS: frozenset[str] = frozenset({"count", "nan", "posinf", "neginf", "zeros"})
"""The statistics that are whole numbers."""


def statistic(name: str, summary: Summary) -> Array:
    """The statistic of that name.

    Raises:
        ValueError: there is none of that name.
    """
    try:
        return STATISTICS[name](summary)
    except KeyError:
        raise ValueError(
            f"There is no statistic {name!r}. Choose from: {', '.join(STATISTICS)}"
        ) from None
