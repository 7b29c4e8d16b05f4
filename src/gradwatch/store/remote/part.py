"""Which part of a run a process uploads, where many record it."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

from gradwatch.store import file_names as names

_numbers: Counter[tuple[str, str]] = Counter()


@dataclass(frozen=True)
class Part:
    """What one of the processes that train together uploads: what it has written itself.

    The first uploads what the run is, too, and chooses the folder, which the others look for.

    Attributes:
        training: what all parts of this run have in common, and no other run.
        rank: the number of the process.

    >>> from gradwatch.store.remote.part import Part
    >>> Part("a", 1).has("20231114T221320250-r0001-1f2e3d4c")
    True
    """

    training: str
    rank: int

    @property
    def is_first(self) -> bool:
        """Whether it chooses the folder."""
        return self.rank == 0

    def has(self, writer: str) -> bool:
        """Whether a writer of this name is of this process, or of an earlier one in its place."""
        return f"-r{self.rank:04d}-" in writer


def part_of(training: str, rank: int, url: str) -> Part:
    """The part of this process in a run that is to be at a URL.

    Each call is another run: processes that train together make them in the same order.

    Args:
        training: a name that the processes share.
        rank: this one's number.
        url: as it may be shown.
    """
    _numbers[training, url] += 1
    # It may be long, and tell the addresses of machines.
    digest = hashlib.sha256(training.encode()).hexdigest()[:16]
    return Part(f"{digest}-{_numbers[training, url]}", rank)


def is_of(part: Part | None, writer: str) -> bool:
    """Whether a writer is of a part; all are of a run that is not in parts."""
    return part is None or part.has(writer)


def is_journal_of(part: Part | None, name: str) -> bool:
    """Whether a file of this name is a journal of a part."""
    journal = names.parse_journal(name)
    return journal is not None and is_of(part, journal.writer)
