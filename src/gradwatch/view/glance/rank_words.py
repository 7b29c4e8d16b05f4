"""How the processes of a parallel training stand, in words."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gradwatch.read import RankStatus, Status

NAMED = 3
"""How many of those that have stopped are named."""
_WORDS = {Status.EMPTY: "missing"}


def ranks_in_words(each: Sequence[RankStatus]) -> str:
    """Those first that have stopped, with where and when; then how many go on or have finished.

    >>> from gradwatch.read.status import RankStatus, Status
    >>> from gradwatch.view.glance.rank_words import ranks_in_words
    >>> ranks_in_words([RankStatus(0, Status.LIVE, 9), RankStatus(1, Status.EMPTY)])
    'rank 1 has recorded nothing; 1 of 2 live'
    """
    bad = [one for one in each if has_stopped(one)]
    parts = [_stopped(one) for one in bad[:NAMED]]
    if len(bad) > NAMED:
        parts.append(f"{len(bad) - NAMED:,} more like these")
    for status in (Status.LIVE, Status.FINISHED):
        count = sum(one.status is status for one in each)
        if count:
            parts.append(f"{count:,} of {len(each):,} {status}")
    return "; ".join(parts)


def states_in_words(each: Sequence[RankStatus]) -> str:
    """How many there are, and how many of them in each state but the usual one.

    >>> from gradwatch.read.status import RankStatus, Status
    >>> from gradwatch.view.glance.rank_words import states_in_words
    >>> states_in_words([RankStatus(0, Status.LIVE, 9), RankStatus(1, Status.EMPTY)])
    '2, 1 live, 1 missing'
    """
    counts: dict[Status, int] = {}
    for one in each:
        counts[one.status] = counts.get(one.status, 0) + 1
    if len(counts) == 1:
        return f"{len(each):,}, all {word(each[0].status)}"
    order = [status for status in Status if status in counts]
    return ", ".join([f"{len(each):,}", *(f"{counts[s]:,} {word(s)}" for s in order)])


def word(status: Status) -> str:
    """What a process is called that stands so."""
    return _WORDS.get(status, str(status))


def about(one: RankStatus) -> tuple[str, str, str]:
    """Status, last step and when that was."""
    step = "-" if one.last_step is None else f"{one.last_step:,}"
    return word(one.status), step, "-" if one.last_time is None else _moment(one.last_time)


def has_stopped(one: RankStatus) -> bool:
    """Whether it crashed, or is missing."""
    return one.status in (Status.CRASHED, Status.EMPTY)


def _stopped(one: RankStatus) -> str:
    if one.last_step is None:
        return f"rank {one.rank} has recorded nothing"
    words = f"rank {one.rank} crashed, last at step {one.last_step:,}"
    return words if one.last_time is None else f"{words} ({_moment(one.last_time)})"


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
