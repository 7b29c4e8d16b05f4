"""Whether a run is still going on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gradwatch.read.catalog import Writer
from gradwatch.store import Damage, process

SILENCE = 60.0
"""Seconds without a record after which a writer on another machine counts as dead."""


class Status(StrEnum):
    """How a run stands."""

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
    """How one process of a training stands.

    Attributes:
        rank: its number.
        status: live, finished or crashed; empty if it has recorded nothing at all.
        last_step: the last step of which it has recorded anything; None if there is none.
        last_time: when that was, in seconds since 1970; None if not known.
        first_step, first_time: the same of the first one.
    """

    rank: int
    status: Status
    last_step: int | None = None
    last_time: float | None = None
    first_step: int | None = None
    first_time: float | None = None


def status_of(writers: Iterable[Writer], damage: Sequence[Damage]) -> Status:
    """How a run stands, from its writers and what is wrong with its files."""
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
