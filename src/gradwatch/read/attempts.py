"""Which rows a later attempt has replaced."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Attempt:
    """One stretch of training that began at `first_step`.

    Attributes:
        writer: the writer that recorded it; writers' names sort by time.
        number: its number within the writer.
        rank: the process of a parallel training.
        first_step: the step at which it began.
        group: the part of the training it is of; None for all of it.
        time: when it began, in seconds since 1970.
    """

    writer: str
    number: int
    rank: int
    first_step: int
    group: str | None = None
    time: float = math.nan


Bounds = dict[tuple[str, int, str], int]
"""For rows of a writer, attempt and group, the step from which on they are superseded."""
BoundsKey = tuple[tuple[tuple[str, int, str], int], ...]
"""The same, sorted: it can be hashed."""


def bounds(
    attempts: Iterable[Attempt],
    with_rows: set[tuple[str, int]],
    groups: Mapping[str, Sequence[str]],
) -> Bounds:
    """From which step on the rows of attempts are superseded.

    Args:
        attempts: all of them, in any order.
        with_rows: writer and number of those that recorded anything: one that did
            not replaces nothing.
        groups: for each writer the groups that its rows are of.
    """
    found: Bounds = {}
    of_all: dict[int, int] = {}
    of_group: dict[tuple[int, str], int] = {}
    nowhere = 1 << 62
    for attempt in sorted(attempts, key=lambda a: (a.writer, a.number), reverse=True):
        rank = attempt.rank
        for group in groups.get(attempt.writer, ()):
            until = min(of_all.get(rank, nowhere), of_group.get((rank, group), nowhere))
            if until < nowhere:
                found[attempt.writer, attempt.number, group] = until
        if (attempt.writer, attempt.number) in with_rows:
            if attempt.group is None:
                of_all[rank] = min(of_all.get(rank, nowhere), attempt.first_step)
            else:
                key = rank, attempt.group
                of_group[key] = min(of_group.get(key, nowhere), attempt.first_step)
    return found
