"""Colour scales for numbers, also for colour-blind readers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

NOT_FINITE = "#ff00c8"
LEVELS = 24
"""The number of colours: more look alike and make the picture larger."""
_SEQUENTIAL = ((53, 18, 92), (47, 84, 138), (30, 140, 139), (104, 190, 92), (250, 230, 60))
_SHARES = ((250, 246, 238), (250, 205, 140), (231, 142, 62), (178, 68, 38), (88, 14, 22))
_DIVERGING = ((22, 74, 134), (104, 160, 204), (226, 226, 226), (232, 160, 84), (150, 72, 8))


class ColourScale(NamedTuple):
    """Maps numbers to positions from 0 to 1; `low` and `high` are those at 0 and 1.

    On a logarithmic scale of magnitudes, they are logarithms to base 10. On a diverging one,
    0.5 stands for 0, with other colours on each side. Any other begins at 0, its lightest colour.
    """

    low: float
    high: float
    is_log: bool
    is_diverging: bool

    def positions(self, values: Values) -> Values:
        """From 0 to 1; NaN for NaN, and -1 for 0 on a logarithmic scale."""
        with np.errstate(all="ignore"):
            heights = np.log10(np.abs(values)) if self.is_log else values
            share = np.clip((heights - self.low) / max(self.high - self.low, 1e-300), 0.0, 1.0)
        share = np.where(np.isnan(values), np.nan, share)
        return np.where(self.is_log & (values == 0), -1.0, share)

    def at(self, position: float) -> float:
        height = self.low + position * (self.high - self.low)
        return float(10.0**height) if self.is_log else height

    def colours(self) -> list[str]:
        """`LEVELS` colours, from 0 to 1."""
        points = _DIVERGING if self.is_diverging else _SEQUENTIAL if self.is_log else _SHARES
        return [_between(points, i / (LEVELS - 1)) for i in range(LEVELS)]


def scale_for(values: Values, scale: str) -> ColourScale:
    """The scale for numbers: `"log"`, or `"linear"` or `"signed"`, which may diverge around 0."""
    known = values[np.isfinite(values)]
    if scale != "log":
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        if low >= 0:
            return ColourScale(0.0, high if high > 0 else 1.0, False, False)
        most = max(-low, high)
        return ColourScale(-most, most, False, True)
    heights = np.log10(np.abs(known[known != 0]))
    low, high = (float(heights.min()), float(heights.max())) if heights.size else (0.0, 1.0)
    # At least a decade, so that small changes look small.
    if high - low < 1.0:
        low, high = (low + high - 1.0) / 2, (low + high + 1.0) / 2
    return ColourScale(low, high, True, False)


def ratio_scale(ratios: Values) -> ColourScale:
    """For logarithms of ratios to base 2: at least from half to twice."""
    known = np.abs(ratios[np.isfinite(ratios)])
    most = max(1.0, float(known.max())) if known.size else 1.0
    return ColourScale(-most, most, False, True)


def _between(points: Sequence[tuple[int, int, int]], share: float) -> str:
    place = share * (len(points) - 1)
    i = min(int(place), len(points) - 2)
    mixed = (
        round(a + (b - a) * (place - i)) for a, b in zip(points[i], points[i + 1], strict=True)
    )
    return "#" + "".join(f"{c:02x}" for c in mixed)
