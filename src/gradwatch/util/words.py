"""Numbers, sizes and times as people read them."""

import math


def compact(value: float | None, digits: int = 3) -> str:
    """A number in three digits; a dash for none."""
    if value is None:
        return "-"
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    return f"{value:#.{digits}g}".removesuffix(".")


def percent(share: float | None, decimals: int = 1) -> str:
    """A share in percent; a dash for none."""
    if share is None:
        return "-"
    return f"{share:.{decimals}%}" if math.isfinite(share) else str(share)


def percent_range(low: float, high: float) -> str:
    """A share from the least to the most that it can be: 12.3%, or 12.3 to 14.0%."""
    least, most = percent(low), percent(high)
    return least if least == most else f"{least.removesuffix('%')} to {most}"


def bytes_(size: float) -> str:
    if size < 1000:
        return f"{size:.0f} B"
    # The power after rounding, so that 999,999 bytes are 1.0 MB and not 1000 kB.
    power = min(int(f"{size:.2e}".partition("e")[2]) // 3, 4)
    size /= 1000**power
    return f"{size:.{1 if size < 99.95 else 0}f} {'kMGT'[power - 1]}B"


def duration(seconds: float | None) -> str:
    """A stretch of time, in its two largest units."""
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
    return f"{number:,} {thing}{'s' * (number != 1)}"


def when(since: int, until: int | None) -> str:
    """During which steps something held."""
    if until is None:
        return f"since step {since:,}"
    stretch = f"at step {since:,}" if since == until else f"steps {since:,} to {until:,}"
    return f"{stretch}, gone since"
