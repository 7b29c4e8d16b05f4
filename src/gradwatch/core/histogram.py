"""Histograms over fixed bins (`bins.py`), so that any two of them merge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradwatch.core.bins import CELLS, EDGES, NONFINITE
from gradwatch.core.framework_types import Tensor
from gradwatch.core.low_precision import CastLoss, cast_loss
from gradwatch.core.reference import count_cells
from gradwatch.core.statistics import finite
from gradwatch.core.summary import Summary

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of a tensor's elements over the fixed cells.

    Example:

    >>> import numpy as np
    >>> from gradwatch.core.histogram import Histogram
    >>> h = Histogram.of(np.arange(1.0, 101.0))
    >>> 45 < h.quantile(0.5) < 56
    True
    """

    cells: Array
    summary: Summary

    @classmethod
    def of(cls, tensor: Tensor) -> Histogram:
        """The histogram of an array, by the NumPy reference."""
        return cls(count_cells(tensor), Summary.of(tensor))

    @classmethod
    def empty(cls) -> Histogram:
        """The identity of `merge`."""
        return cls(np.zeros(CELLS), Summary.empty())

    def merge(self, other: Histogram) -> Histogram:
        """The histogram of both tensors together."""
        return Histogram(self.cells + other.cells, self.summary.merge(other.summary))

    def quantile(self, q: float) -> float:
        """The value below which a share `q` of the finite elements lies.

        Within a bin the elements are taken as evenly spread, and the exact
        minimum and maximum bound the result, so the relative error is at most
        25 % (one bin's width) for magnitudes from 2^-64 to 2^64, usually far
        less; 0 is exact. NaN without a finite element.

        Raises:
            ValueError: `q` is not between 0 and 1.
        """
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"A quantile is between 0 and 1. Received: q={q}")
        if finite(self.summary) == 0:
            return float("nan")
        lower, upper, counts = self.buckets()
        # The rank that numpy.quantile interpolates at, so that q = 0 and 1 are
        # the minimum and maximum and a rank falls inside the cell it belongs to.
        rank = q * (counts.sum() - 1)
        before = np.concatenate([[0.0], np.cumsum(counts)])
        cell = int(np.searchsorted(before, rank, side="right")) - 1
        share = (rank - before[cell] + 0.5) / counts[cell]
        value = lower[cell] + share * (upper[cell] - lower[cell])
        return float(np.clip(value, self.summary.min, self.summary.max))

    def lost(self, number_format: str) -> CastLoss:
        """What a cast to a number format would make 0, subnormal or infinite.

        A cast rounds to the nearest number. Where it changes its outcome within a cell, the
        counts are bounds.

        Args:
            number_format: `"float16"`, `"bfloat16"`, `"float8_e4m3fn"` or `"float8_e5m2"`.

        Raises:
            ValueError: it is another one.

        Example:

        >>> import numpy as np
        >>> from gradwatch.core import Histogram
        >>> lost = Histogram.of(np.array([1e-9, 1e-6, 1.0, 1e6])).lost("float16")
        >>> lost.zero.low, lost.subnormal.low, lost.overflow.low
        (1.0, 1.0, 1.0)
        """
        low, high = float(self.summary.min), float(self.summary.max)
        return cast_loss(self.cells, low, high, number_format)

    def buckets(self) -> tuple[Array, Array, Array]:
        """Lower edges, upper edges and counts of the occupied cells, ascending.

        The outermost edges are the exact minimum and maximum; elements that
        are not finite have no bucket.
        """
        occupied = np.flatnonzero(self.cells[:NONFINITE])
        low, high = self.summary.min, self.summary.max
        return (
            np.clip(EDGES[occupied], low, high),
            np.clip(EDGES[occupied + 1], low, high),
            self.cells[occupied],
        )
