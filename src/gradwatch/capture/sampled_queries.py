"""Which queries of attention are measured."""

from typing import Any

MOST_QUERIES = 16


def sampled(queries: Any) -> slice:
    """At most `MOST_QUERIES` evenly spread ones, with the last; the number may be a tensor.

    >>> list(range(100))[sampled(100)]
    [1, 8, 15, 22, 29, 36, 43, 50, 57, 64, 71, 78, 85, 92, 99]
    """
    step = (queries + MOST_QUERIES - 1) // MOST_QUERIES
    return slice((queries - 1) % step, None, step)
