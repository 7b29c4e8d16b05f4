"""What a cast to a narrow number format would lose, from the cells of a histogram.

A cast rounds to the nearest number, and a tie to the even one. So it changes its outcome at three
magnitudes: half of the smallest subnormal number, which still becomes 0; half a step below the
smallest normal number, which becomes normal; half a step above the largest number. Cells are closed
towards 0, so counts are exact only where the cell that begins at such a magnitude, or holds it, is
empty or has one outcome; else they are bounds.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwatch.core.bins import EDGES, NONFINITE, ZERO

Array = NDArray[np.float64]


class Bounds(NamedTuple):
    """The least and the most that it can be; equal where it is exact."""

    low: float
    high: float


@dataclass(frozen=True)
class CastLoss:
    """How many elements a cast would lose or saturate.

    Attributes:
        elements: all that count: finite and not 0.
        zero: those that would become 0.
        subnormal: those that would become subnormal, with fewer bits than others.
        overflow: those that would become infinite, or NaN in a format without infinity;
            a cast that saturates makes them the largest number.
    """

    elements: float
    zero: Bounds
    subnormal: Bounds
    overflow: Bounds

    def shares(self) -> dict[str, Bounds]:
        """Each of the three as a share of `elements`; NaN without any."""
        total = self.elements or math.nan
        counts = {"zero": self.zero, "subnormal": self.subnormal, "overflow": self.overflow}
        return {name: Bounds(low / total, high / total) for name, (low, high) in counts.items()}


@dataclass(frozen=True)
class _Outcomes:
    """The largest magnitude that becomes 0, and that becomes subnormal; the first to overflow."""

    zero_to: float
    subnormal_to: float
    overflow_from: float


def _outcomes(mantissa_bits: int, lowest_exponent: int, largest: float) -> _Outcomes:
    half = math.ldexp(0.5, lowest_exponent - mantissa_bits)  # of the smallest subnormal number
    step = math.ldexp(1.0, math.frexp(largest)[1] - 1 - mantissa_bits)
    limit = largest + step / 2
    is_even = largest / step % 2 == 0
    return _Outcomes(
        zero_to=half,
        subnormal_to=math.nextafter(math.ldexp(1.0, lowest_exponent) - half, 0.0),
        overflow_from=math.nextafter(limit, math.inf) if is_even else limit,
    )


_FORMATS = {
    "float16": _outcomes(10, -14, 65504.0),
    "bfloat16": _outcomes(7, -126, (2 - 2.0**-7) * 2.0**127),
    "float8_e4m3fn": _outcomes(3, -6, 448.0),
    "float8_e5m2": _outcomes(2, -14, 57344.0),
}
NUMBER_FORMATS = tuple(_FORMATS)


def cast_loss(cells: Array, smallest: float, largest: float, number_format: str) -> CastLoss:
    """See `Histogram.lost`; `smallest` and `largest` are the extreme finite elements."""
    if number_format not in _FORMATS:
        known = ", ".join(NUMBER_FORMATS)
        raise ValueError(f"A number format is one of {known}. Received: {number_format!r}")
    outcomes = _FORMATS[number_format]
    occupied = np.flatnonzero(cells[:NONFINITE])
    occupied = occupied[occupied != ZERO]
    counts = cells[occupied]
    low, high = _magnitudes(occupied, smallest, largest)

    def bounds(first: float, last: float) -> Bounds:
        sure = (first <= low) & (high <= last)
        possible = (low <= last) & (first <= high)
        return Bounds(float(counts[sure].sum()), float(counts[possible].sum()))

    return CastLoss(
        elements=float(counts.sum()),
        zero=bounds(0.0, outcomes.zero_to),
        subnormal=bounds(math.nextafter(outcomes.zero_to, 1.0), outcomes.subnormal_to),
        overflow=bounds(outcomes.overflow_from, math.inf),
    )


def _magnitudes(cells: NDArray[np.intp], smallest: float, largest: float) -> tuple[Array, Array]:
    """The smallest and the largest magnitude that an element of each cell can have."""
    is_negative = cells < ZERO
    inner = np.where(is_negative, -EDGES[cells + 1], EDGES[cells])
    outer = np.where(is_negative, -EDGES[cells], EDGES[cells + 1])
    low, high = np.maximum(inner, np.nextafter(0.0, 1.0)), np.nextafter(outer, 0.0)
    nearest = np.where(is_negative, -largest, smallest)
    furthest = np.where(is_negative, -smallest, largest)
    own_low, own_high = np.maximum(low, nearest), np.minimum(high, furthest)
    # A device that takes subnormal elements as 0 in the extremes may not in the cells.
    fits = own_low <= own_high
    return np.where(fits, own_low, low), np.where(fits, own_high, high)
