"""How many tensors of any shape are cut into rows of one width.

A reduction for each tensor and statistic costs more to compile and to start than to
run, where tensors are small and many. So small tensors are laid out together in one
matrix and reduced at once; large ones are reduced where they lie. Either way a tensor
becomes rows of equal width, whose statistics are then brought together:

- its *head*, the whole rows in it: `alone` if it is large, else `together` with others;
- its *tail*, what is left over, padded to one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ALIKE = 16
"""Elements are alike if their mean square is more than so many times their variance."""


class Table(NamedTuple):
    """For each row, or for each tensor: sums (one column each), minimum and maximum."""

    sums: Any
    low: Any
    high: Any


class Matrix(NamedTuple):
    """Some of the rows; `lengths` are those of padded rows."""

    values: Any
    lengths: Any


@dataclass(frozen=True)
class Rows:
    """The rows of tensors of given sizes.

    The rows of all heads are numbered one after the other: those of `alone`, then those of
    `together`. Neighbours with equally many rows form a block, so that one reduction brings
    together the rows of all of them.

    Example:

    >>> from gradwatch.measure.rows import Rows
    >>> rows = Rows.of([9, 100, 3, 8], width=4, large=50)
    >>> rows.alone, rows.together, rows.tails
    ((1,), (0, 3), (0, 2))
    >>> rows.blocks
    ((1, 25), (2, 2))
    """

    sizes: tuple[int, ...]
    width: int
    alone: tuple[int, ...]
    """Tensors whose heads are large."""
    together: tuple[int, ...]
    """Tensors with other heads."""
    tails: tuple[int, ...]
    """Tensors with a tail, by its length."""

    @classmethod
    def of(cls, sizes: Sequence[int], width: int, large: int) -> Rows:
        """The layout of tensors of these sizes.

        Args:
            sizes: their numbers of elements.
            width: of a row.
            large: the number of elements from which on a tensor is not copied.
        """
        # By the number of rows, so that equal ones are neighbours.
        order = sorted(range(len(sizes)), key=lambda i: sizes[i] // width)
        heads = [i for i in order if sizes[i] >= width]
        return cls(
            tuple(sizes),
            width,
            tuple(i for i in heads if sizes[i] >= large),
            tuple(i for i in heads if sizes[i] < large),
            tuple(
                sorted(
                    (i for i in range(len(sizes)) if sizes[i] % width),
                    key=lambda i: sizes[i] % width,
                )
            ),
        )

    def head(self, tensor: int) -> int:
        """How many elements are in its whole rows."""
        return self.sizes[tensor] // self.width * self.width

    def tail(self, tensor: int) -> int:
        """How many elements are left over."""
        return self.sizes[tensor] % self.width

    @property
    def heads(self) -> tuple[int, ...]:
        """The tensors that have whole rows, in the order of these."""
        return self.alone + self.together

    @property
    def is_alone(self) -> NDArray[np.bool_]:
        """For each tensor, whether its head is large."""
        return np.isin(np.arange(len(self.sizes)), self.alone)

    def are_alike(self, total: Any, squares: Any) -> Any:
        """For each tensor, whether its elements scatter little around a mean that is not 0.

        Then a spread that is derived from sums of float32 would be of their rounding. Up to
        here, an error of 1e-6 in the sums makes at most one of 1e-5 in the standard deviation.

        Args:
            total, squares: the tensors' sums, of any framework.
        """
        sizes = np.array(self.sizes, np.float64)
        return total * total > squares * (sizes * (1 - 1 / ALIKE))

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """(how many tensors, how many rows each has), in the order of `heads`."""
        counts = groupby(self.sizes[i] // self.width for i in self.heads)
        return tuple((len(list(same)), rows) for rows, same in counts)

    @property
    def equal_tails(self) -> list[tuple[int, list[int]]]:
        """(length, the tensors whose tails have it), in the order of `tails`."""
        return [(length, list(same)) for length, same in groupby(self.tails, self.tail)]

    def places(self, tensors: Sequence[int]) -> list[int]:
        """For each tensor its place among these; the place after the last if it is not there."""
        place = {tensor: i for i, tensor in enumerate(tensors)}
        return [place.get(i, len(tensors)) for i in range(len(self.sizes))]
