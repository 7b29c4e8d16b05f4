"""A series as a line of small bars."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = ".:-=+*#@"
DECADE = float(np.log(10.0))
"""The smallest range of a logarithmic line: a factor of 10."""
ZERO, NOT_FINITE, NOTHING = "_", "!", " "


def sparkline(
    values: Sequence[float],
    marked: Sequence[bool] | None = None,
    *,
    log: bool = True,
    bars: str = BARS,
) -> str:
    """A line of bars, one for each value; `bars` has the lowest first.

    On the logarithmic scale, 0 is `_`. A marked or infinite value is `!`; NaN, where nothing
    was measured, is a gap. If the largest value is less than ten times the smallest, only
    the bars in the middle are used, so that noise looks small.
    """
    numbers = np.asarray(values, np.float64)
    if log:
        with np.errstate(divide="ignore", invalid="ignore"):
            heights = np.log(np.abs(numbers))
    else:
        heights = numbers
    shown = np.isfinite(heights)
    low, high = (heights[shown].min(), heights[shown].max()) if shown.any() else (0.0, 0.0)
    # A series that hardly changes is a flat line, not noise blown up to full height.
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


def trend_bars(
    trend: Mapping[str, Any] | None, log: bool = True, encoding: str | None = "utf-8"
) -> str:
    """A trend, as `view.data.trends` returns it, in bars that the encoding has."""
    if trend is None:
        return ""
    values = [math.nan if value is None else value for value in trend["values"]]
    marked = [count > 0 for count in trend["nonfinite"]]
    return sparkline(values, marked, log=log, bars=bars_for(encoding))


def bars_for(encoding: str | None) -> str:
    """Bars that an output of this encoding can show."""
    try:
        BARS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN_BARS
    return BARS
