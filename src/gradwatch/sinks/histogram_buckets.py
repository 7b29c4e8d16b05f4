"""Histograms as buckets, for TensorBoard and for what is forwarded to others."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import EDGES, NONFINITE, Histogram

Array = NDArray[np.float64]

MAX_BUCKETS = 64
TOGETHER = 256
"""The histograms that are made at once: a few MB."""


def buckets(several: Sequence[Histogram], most: int = MAX_BUCKETS) -> list[tuple[Array, Array]]:
    """Of each histogram upper edges, strictly ascending, and counts, of at most `most` buckets.

    Each has a finite element. TensorBoard takes the upper edge of one bucket as the lower edge
    of the next, and the minimum as the lower edge of the first, and spreads a bucket's
    elements evenly between the two. So a gap needs an empty bucket, or its
    neighbour would reach across it; and a single value (zero, or a minimum or
    maximum that is the border of its cell) needs a bucket that is a little wider
    than nothing, or some versions of TensorBoard show it nowhere. Counts are
    conserved.

    All are made together: a training with hundreds waits for the last ones when it ends.
    """
    found: list[tuple[Array, Array]] = []
    for start in range(0, len(several), TOGETHER):
        found += _buckets(several[start : start + TOGETHER], most)
    return found


@np.errstate(all="ignore")
def _buckets(several: Sequence[Histogram], most: int) -> list[tuple[Array, Array]]:
    cells = np.stack([taken.cells[:NONFINITE] for taken in several])
    low, high = (
        np.array([getattr(taken.summary, name) for taken in several], float).reshape(-1)
        for name in ("min", "max")
    )
    of, cell = np.nonzero(cells)
    lower, upper = (np.clip(EDGES[cell + k], low[of], high[of]) for k in (0, 1))
    counts = cells[of, cell].astype(float)
    gaps = np.flatnonzero((of[1:] == of[:-1]) & (lower[1:] > upper[:-1])) + 1
    rows = _Rows(
        np.insert(of, gaps, of[gaps]),
        np.insert(upper, gaps, lower[gaps]),
        np.insert(counts, gaps, 0.0),
        low,
    )
    rows = rows.widened().coarsened(most)
    ends = [0, *np.cumsum(rows.sizes).tolist()]
    return [(rows.limits[a:b], rows.counts[a:b]) for a, b in pairwise(ends)]


class _Rows(NamedTuple):
    """The buckets of all histograms, one after the other."""

    of: NDArray[np.intp]
    """The number of its histogram."""
    limits: Array
    counts: Array
    low: Array
    """Of each histogram, the minimum."""

    @property
    def sizes(self) -> NDArray[np.intp]:
        return np.bincount(self.of, minlength=len(self.low))

    @property
    def lower(self) -> Array:
        """The edge below each limit."""
        edges = np.concatenate([[0.0], self.limits[:-1]])
        firsts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        edges[firsts] = self.low
        return edges

    def kept(self, keep: NDArray[np.bool_]) -> "_Rows":
        """With these limits; a bucket whose limit goes falls to the next one that stays."""
        starts = np.concatenate([[0], np.flatnonzero(keep)[:-1] + 1])
        counts = np.add.reduceat(self.counts, starts)
        return _Rows(self.of[keep], self.limits[keep], counts, self.low)

    def widened(self) -> "_Rows":
        """Give single values a width: downwards for the last, whose limit is the maximum."""
        limits, ends = self.limits.copy(), np.cumsum(self.sizes)
        for i in np.flatnonzero(limits == self.lower).tolist():
            row = self.of[i]
            first, last = (ends[row - 1] if row else 0), ends[row] - 1
            if i < last:
                limits[i] = _nearest(limits[i], np.inf, limits[i + 1])
            elif i > first:
                below = limits[i - 2] if i > first + 1 else self.low[row]
                limits[i - 1] = _nearest(limits[i], -np.inf, below)
        # No number may be left between the two, for subnormal ones: then they are one bucket.
        keep = np.append(np.diff(limits) > 0, True)
        keep[ends - 1] = True
        return self._replace(limits=limits).kept(keep)

    def coarsened(self, most: int) -> "_Rows":
        """Join neighbours, in rounds, until few enough are left.

        A pair costs its count times its width, which bounds how far joining it moves
        the elements; the cheapest are joined, so what is lost is what shows least.
        """
        rows = self
        while ((missing := rows.sizes - most) > 0).any():
            sizes = rows.sizes
            place = np.arange(len(rows.of)) - (np.cumsum(sizes) - sizes)[rows.of]
            is_left = (place % 2 == 0) & (place < sizes[rows.of] - 1) & (missing[rows.of] > 0)
            left = np.flatnonzero(is_left)
            width = rows.limits[left + 1] - rows.lower[left]
            cost = (rows.counts[left] + rows.counts[left + 1]) * width
            left = left[np.lexsort((cost, rows.of[left]))]
            of = rows.of[left]
            is_cheap = np.arange(len(left)) - np.searchsorted(of, of) < missing[of]
            keep = np.ones(len(rows.of), bool)
            keep[left[is_cheap]] = False
            rows = rows.kept(keep)
        return rows


def _nearest(value: float, towards: float, bound: float) -> float:
    """The nearest number on that side, as a float32 if that is short of `bound`.

    TensorBoard keeps edges as float32, where a nearer one would be `value` again.
    """
    near = float(np.nextafter(np.float32(value), np.float32(towards)))
    if min(value, bound) < near < max(value, bound):
        return near
    return float(np.nextafter(value, towards))
