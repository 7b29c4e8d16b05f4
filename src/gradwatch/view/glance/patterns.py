"""Several patterns as one selector."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from gradwatch.core import select


def selector(patterns: Sequence[str]) -> select.Selector | None:
    """What several patterns select: what any of them does, less what one with a `!` names.

    Returns:
        None without any pattern: everything.

    Raises:
        ValueError: one of them is no pattern.

    Example:

    >>> from gradwatch.view.glance.patterns import selector
    >>> selector(["conv*", "!bias"])
    ('conv*' & ~'bias')
    """
    if not patterns:
        return None
    wanted = [select.as_selector(p) for p in patterns if not p.startswith("!")]
    excluded = [select.as_selector(p) for p in patterns if p.startswith("!")]
    chosen = [reduce(lambda a, b: a | b, wanted)] if wanted else []
    return reduce(lambda a, b: a & b, [*chosen, *excluded])
