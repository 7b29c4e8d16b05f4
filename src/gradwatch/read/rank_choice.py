"""Whose rows are meant, where several processes have written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gradwatch.core import Kind
from gradwatch.read.members import NotRecordedError

ALL: Literal["all"] = "all"
RankChoice = int | Literal["all"] | None
"""One rank; all of them, merged; or None: of each site the first rank that has recorded it."""


def checked(choice: RankChoice, ranks: Sequence[int]) -> RankChoice:
    """The choice, if there is such a rank.

    Raises:
        NotRecordedError: there is none.
        ValueError: it is no rank.

    >>> from gradwatch.read.rank_choice import checked
    >>> checked("all", (0, 1)), checked(1, (0, 1)), checked(None, ())
    ('all', 1, None)
    """
    if choice is None or choice == ALL:
        return choice
    if not isinstance(choice, int):
        raise ValueError(f"rank is a number, 'all', or None for the first. Received: {choice!r}")
    if choice not in ranks:
        known = ", ".join(map(str, ranks[:20])) + ", ..." * (len(ranks) > 20)
        raise NotRecordedError(f"There is no rank {choice} in this run. Recorded: {known}.")
    return int(choice)


def is_of_share(kind: Kind) -> bool:
    """Whether each rank has its own, of its share of the batch, which together are the whole.

    Of variables, ranks have copies: merged, they would count several times.
    """
    return kind.is_of_layer or kind.is_of_batch or kind.is_number


def is_merged(kind: Kind, choice: RankChoice) -> bool:
    """Whether rows of several ranks are one: of a share of the batch each, if all are asked for."""
    return choice == ALL and is_of_share(kind)
