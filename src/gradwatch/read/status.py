"""Whether a run, and each of its ranks, is still being recorded."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from gradwatch.read.moments import Moments
from gradwatch.read.writer_files import Writer
from gradwatch.store import Damage, process

SILENCE = 60.0
"""Seconds without a record after which a writer on another machine counts as dead."""


class Status(StrEnum):
    LIVE = "live"
    """A process is recording it; one on another machine has written within the last minute."""
    FINISHED = "finished"
    """The last record of each rank was ended properly."""
    CRASHED = "crashed"
    """A process ended without ending its record; all that it had written is there."""
    DAMAGED = "damaged"
    """It is not live, and some of what was written cannot be read any more."""
    EMPTY = "empty"
    """There is no record in it (yet)."""


@dataclass(frozen=True)
class RankStatus:
    """The status of one process of a training: empty if it has recorded nothing at all.

    Times are in seconds since 1970; steps and times are None if there is none.
    """

    rank: int
    status: Status
    last_step: int | None = None
    last_time: float | None = None
    first_step: int | None = None
    first_time: float | None = None


def status_of(writers: Iterable[Writer], damage: Sequence[Damage]) -> Status:
    newest = {writer.rank: writer for writer in writers}
    if any(is_live(writer) for writer in newest.values()):
        return Status.LIVE
    if damage:
        return Status.DAMAGED
    if not newest:
        return Status.EMPTY
    ended = all(writer.end is not None for writer in newest.values())
    return Status.FINISHED if ended else Status.CRASHED


def is_live(writer: Writer) -> bool:
    """Whether the writer may write on: it has not ended its record, and its process runs."""
    if writer.end is not None:
        return False
    running = process.is_running(writer.facts)
    if running is None:
        return time.time() - _last_sign(writer) < SILENCE
    return running


def _last_sign(writer: Writer) -> float:
    signs = [0.0]
    for journal in writer.journals.values():
        try:
            signs.append(journal.path.stat().st_mtime)
        except OSError:
            continue
    return max(signs)


def rank_statuses(writers: Iterable[Writer], moments: Moments, expected: int) -> list[RankStatus]:
    """The status of every rank, in their order.

    `writers` are oldest first, and `moments` without what is superseded. Of the `expected` ranks,
    one that has no writer has recorded nothing.
    """
    writers_of: dict[int, list[Writer]] = {rank: [] for rank in range(expected)}
    for writer in writers:
        writers_of.setdefault(writer.rank, []).append(writer)
    columns = moments.columns
    # All ranks in one pass: there may be a thousand of them.
    ranks, place = np.unique(columns["rank"], return_inverse=True)
    first_step = np.full(ranks.size, np.iinfo(np.int64).max)
    last_step = np.full(ranks.size, np.iinfo(np.int64).min)
    first_time, last_time = np.full(ranks.size, np.inf), np.full(ranks.size, -np.inf)
    np.minimum.at(first_step, place, columns["step"])
    np.maximum.at(last_step, place, columns["step"])
    np.minimum.at(first_time, place, columns["first"])
    np.maximum.at(last_time, place, columns["last"])
    row_of = {int(rank): row for row, rank in enumerate(ranks)}

    def status(rank: int) -> RankStatus:
        stands: Status = status_of(writers_of[rank], [])
        row = row_of.get(rank)
        if row is None:
            return RankStatus(rank, stands)
        return RankStatus(
            rank,
            stands,
            int(last_step[row]),
            float(last_time[row]),
            int(first_step[row]),
            float(first_time[row]),
        )

    return [status(rank) for rank in sorted(writers_of)]
