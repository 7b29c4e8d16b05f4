"""Numbers, sizes and times as people read them."""

from __future__ import annotations

import math


def compact(value: float | None) -> str:
    """A number in three digits; a dash for none.

    >>> from gradwatch.util.words import compact
    >>> [compact(v) for v in (0.0, 0.0123456, 1234.5, float("inf"), float("nan"), None)]
    ['0', '0.0123', '1.23e+03', 'inf', 'nan', '-']
    """
    if value is None:
        return "-"
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    return f"{value:#.3g}".removesuffix(".")


def percent(share: float | None) -> str:
    """A share of all."""
    return "-" if share is None or math.isnan(share) else f"{share:.1%}"


def bytes_(size: float) -> str:
    """A size of a file.

    >>> from gradwatch.util.words import bytes_
    >>> [bytes_(n) for n in (999, 12_345, 7_800_000_000)]
    ['999 B', '12.3 kB', '7.8 GB']
    """
    if size < 1000:
        return f"{size:.0f} B"
    # The power after rounding, so that 999,999 bytes are 1.0 MB and not 1000 kB.
    power = min(int(f"{size:.2e}".partition("e")[2]) // 3, 4)
    size /= 1000**power
    return f"{size:.{1 if size < 99.95 else 0}f} {'kMGT'[power - 1]}B"


def duration(seconds: float | None) -> str:
    """A stretch of time, in its two largest units.

    >>> from gradwatch.util.words import duration
    >>> [duration(s) for s in (0.25, 75, 7300, 200_000, None)]
    ['0.2 s', '1 min 15 s', '2 h 01 min', '2 d 07 h', '-']
    """
    if seconds is None or math.isnan(seconds):
        return "-"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours:02d} h"


def counted(number: int, thing: str) -> str:
    """A number of things.

    >>> from gradwatch.util.words import counted
    >>> counted(1, "run"), counted(12_000, "row")
    ('1 run', '12,000 rows')
    """
    return f"{number:,} {thing}{'s' * (number != 1)}"


def when(since: int, until: int | None) -> str:
    """During which steps something held.

    >>> from gradwatch.util.words import when
    >>> when(1200, None), when(3, 9), when(4, 4)
    ('since step 1,200', 'steps 3 to 9, gone since', 'at step 4, gone since')
    """
    if until is None:
        return f"since step {since:,}"
    stretch = f"at step {since:,}" if since == until else f"steps {since:,} to {until:,}"
    return f"{stretch}, gone since"
