"""Which files of a run a process uploads, where several processes record it."""

import hashlib
from collections import Counter
from dataclasses import dataclass

from gradwatch.store import file_names as names

_numbers: Counter[tuple[str, str]] = Counter()


@dataclass(frozen=True)
class RankShare:
    """The files that one rank uploads: those that it has written itself.

    Rank 0 also uploads `run.json`, and chooses the folder, which the other ranks look for.
    `training` is the same for all ranks of this run, and for no other run.
    """

    training: str
    rank: int

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def has(self, writer: str) -> bool:
        """Whether a writer of this name is of this process, or of an earlier one in its place."""
        return names.is_of_rank(writer, self.rank)


def share_of(training: str, rank: int, url: str) -> RankShare:
    """The share of this process in a run that is to be at a URL, given as it may be shown.

    Each call is another run: processes that train together make them in the same order. They share
    the name `training`.
    """
    _numbers[training, url] += 1
    # It may be long, and tell the addresses of machines.
    digest = hashlib.sha256(training.encode()).hexdigest()[:16]
    return RankShare(f"{digest}-{_numbers[training, url]}", rank)


def is_of(share: RankShare | None, writer: str) -> bool:
    """Whether a writer belongs to a share; without a share all do."""
    return share is None or share.has(writer)


def is_journal_of(share: RankShare | None, name: str) -> bool:
    journal = names.parse_journal(name)
    return journal is not None and is_of(share, journal.writer)
