"""The state of the processes of a parallel training, in words."""

import time
from collections import Counter
from collections.abc import Sequence

from gradwatch.read import RankStatus, Status

NAMED = 3
"""How many of the ranks that have stopped are named."""


def ranks_in_words(ranks: Sequence[RankStatus]) -> str:
    """Which ranks have stopped, where and when; how many are live or have finished."""
    bad = [rank for rank in ranks if has_stopped(rank)]
    parts = [_stopped(rank) for rank in bad[:NAMED]]
    if len(bad) > NAMED:
        parts.append(f"{len(bad) - NAMED:,} more like these")
    for status in (Status.LIVE, Status.FINISHED):
        count = sum(rank.status is status for rank in ranks)
        if count:
            parts.append(f"{count:,} of {len(ranks):,} {status}")
    return "; ".join(parts)


def rank_counts(ranks: Sequence[RankStatus]) -> str:
    """How many ranks there are, and how many have each status."""
    counts = Counter(rank.status for rank in ranks)
    if len(counts) == 1:
        return f"{len(ranks):,}, all {_word(ranks[0].status)}"
    order = [status for status in Status if status in counts]
    return ", ".join([f"{len(ranks):,}", *(f"{counts[s]:,} {_word(s)}" for s in order)])


def rank_cells(rank: RankStatus) -> tuple[str, str, str]:
    """A rank's status, its last step and the time of that."""
    step = "-" if rank.last_step is None else f"{rank.last_step:,}"
    return _word(rank.status), step, "-" if rank.last_time is None else _moment(rank.last_time)


def has_stopped(rank: RankStatus) -> bool:
    """Whether the rank crashed or never recorded anything."""
    return rank.status in (Status.CRASHED, Status.EMPTY)


def _word(status: Status) -> str:
    return "missing" if status is Status.EMPTY else str(status)


def _stopped(rank: RankStatus) -> str:
    if rank.last_step is None:
        return f"rank {rank.rank} has recorded nothing"
    words = f"rank {rank.rank} crashed, last at step {rank.last_step:,}"
    return words if rank.last_time is None else f"{words} ({_moment(rank.last_time)})"


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
