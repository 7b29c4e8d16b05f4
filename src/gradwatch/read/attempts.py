"""Which rows a later attempt has replaced."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Attempt:
    """One stretch of training of one rank.

    Writers' names sort by their beginning, and `number` counts within a writer. A `group` of None
    is all of the training. `time` is when it began, in seconds since 1970.
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

    `with_rows` are the attempts, by writer and number, that recorded anything: others replace
    nothing. `groups` has for each writer the groups that its rows are of.
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
