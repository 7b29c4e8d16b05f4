"""A series as a line of small bars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = ".:-=+*#@"
DECADE = float(np.log(10.0))
"""The range that a logarithmic line has at least: that of a factor of 10."""
ZERO, NOT_FINITE, NOTHING = "_", "!", " "


def sparkline(
    values: Sequence[float],
    marked: Sequence[bool] | None = None,
    *,
    log: bool = True,
    bars: str = BARS,
) -> str:
    """One character a value: the lowest bar for the smallest, the highest for the largest.

    On the logarithmic scale, a value of 0 is `_`. A value that is not finite, or marked,
    is `!`, and NaN, where nothing was measured, is a gap. Where the largest is less than
    ten times the smallest, the bars in the middle are used, so that noise looks small.

    Args:
        values: the series.
        marked: those to be shown as not finite whatever their value is.
        log: whether equal ratios, rather than equal differences, look the same.
        bars: the bars, lowest first.

    Example:

    >>> from gradwatch.view.glance.sparkline import sparkline
    >>> sparkline([1, 10, 100, 1000, 0, float("nan"), float("inf")])
    '▁▃▆█_ !'
    """
    numbers = np.asarray(values, np.float64)
    if log:
        with np.errstate(divide="ignore", invalid="ignore"):
            heights = np.log(np.abs(numbers))
    else:
        heights = numbers
    shown = np.isfinite(heights)
    low, high = (heights[shown].min(), heights[shown].max()) if shown.any() else (0.0, 0.0)
    # What hardly changes is a flat line, not noise blown up to full height.
    least = DECADE if log else 1e-6 * max(abs(low), abs(high))
    if high - low < least:
        low, high = (low + high - least) / 2, (low + high + least) / 2
    top = len(bars) - 1
    line = []
    for i, number in enumerate(numbers.tolist()):
        if (marked is not None and marked[i]) or np.isinf(number):
            line.append(NOT_FINITE)
        elif np.isnan(number):
            line.append(NOTHING)
        elif not shown[i]:
            line.append(ZERO)
        else:
            share = (heights[i] - low) / (high - low) if high > low else 0.5
            line.append(bars[round(share * top)])
    return "".join(line)


def bars_for(encoding: str | None) -> str:
    """Bars that an output of this encoding can show."""
    try:
        BARS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN_BARS
    return BARS
