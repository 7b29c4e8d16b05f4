"""The algebra: a tensor's summary, and how two merge.

A `Summary` holds a few numbers about a tensor. Two summaries merge into the
summary of the two tensors laid side by side, so a layer, a model, a set of
replicas or a stretch of time is measured by merging, never by special code.

The fields may be scalars or arrays of one shape: a single tensor and a whole
table of tensors go through the same functions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core.framework_types import Tensor
from gradwatch.core.reference import summarize

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
COUNTS: frozenset[str] = frozenset({"count", "nan", "posinf", "neginf", "zeros"})
"""The fields that are whole numbers."""
IDENTITY: Array = np.array(
    [{_ADD: 0.0, _MIN: np.inf, _MAX: -np.inf}[how] for how in _MERGE.values()]
)


@dataclass(frozen=True, eq=False)
class Summary:
    """Ten numbers about a tensor, in float64; counts are exact to 2^53.

    `sum`, `sum_abs`, `sum_squares`, `min` and `max` are over the finite
    elements. With no finite element `min` is +inf and `max` is -inf, which is
    what makes merging work; the statistics `min` and `max` are NaN then.
    Elements beyond 1e154, which only a float64 tensor can have, make
    `sum_squares` infinite, and with it the L2 norm.

    Example:

    >>> import numpy as np
    >>> from gradwatch.core import Summary, l2
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
    def of(cls, tensor: Tensor) -> Summary:
        """The summary of an array, by the float64 NumPy reference."""
        return cls.unpack(summarize(tensor))

    @classmethod
    def of_numbers(cls, values: Sequence[float] | Sequence[Sequence[float]]) -> Summary:
        """The summaries of tensors that have one element each; of a table of them."""
        numbers = np.asarray(values, np.float64)
        is_finite = np.isfinite(numbers)
        finite = np.where(is_finite, numbers, 0.0)
        with np.errstate(over="ignore"):
            return cls(
                np.ones(numbers.shape),
                np.isnan(numbers).astype(np.float64),
                np.isposinf(numbers).astype(np.float64),
                np.isneginf(numbers).astype(np.float64),
                (numbers == 0).astype(np.float64),
                finite,
                np.abs(finite),
                finite * finite,
                np.where(is_finite, numbers, np.inf),
                np.where(is_finite, numbers, -np.inf),
            )

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
        return cls(*[rows[..., i] for i in range(len(FIELDS))])

    def pack(self) -> Array:
        """As packed rows, the inverse of `unpack`."""
        return np.stack([getattr(self, name) for name in FIELDS], axis=-1)

    def __getitem__(self, index: Any) -> Summary:
        return Summary(*[np.asarray(values)[index] for values in vars(self).values()])

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
