"""The files of one writer of a run."""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from gradwatch.store import Journal
from gradwatch.util import Json

SiteName = tuple[str, str, str]
"""Kind, path and group."""


@dataclass(frozen=True)
class Segment:
    """A sealed file: the rows of one table of one journal."""

    writer: str
    number: int
    table: str
    path: Path
    checksum: str
    rows: int | None = None
    bytes: int | None = None


@dataclass
class Writer:
    """The files of one writer, and the facts in them.

    `facts` are its rank, host, pid and start. `sites` are by site number, None where unknown;
    writers that have the same share one list. `end` is None if the writer has not ended. `sealed`
    has the whole segments of the sealed journals, and `journals` those that are not sealed, both by
    journal number.
    """

    name: str
    facts: dict[str, Json] = field(default_factory=dict)
    sites: list[SiteName | None] = field(default_factory=list)
    attempts: list[dict[str, Json]] = field(default_factory=list)
    groups: dict[str, list[int]] = field(default_factory=dict)
    end: dict[str, Json] | None = None
    sealed: dict[int, list[Segment]] = field(default_factory=dict)
    journals: dict[int, Journal] = field(default_factory=dict)
    newest: int = -1
    lost_rows: int = 0
    without_manifest: bool = False

    @property
    def rank(self) -> int:
        """The process of a parallel training; the name has it too."""
        rank = self.facts.get("rank")
        return rank if isinstance(rank, int) else int(self.name.split("-r")[1].split("-")[0])

    @property
    def missing(self) -> list[tuple[int, int]]:
        """The journals that are neither here nor sealed: from which number to which."""
        known = sorted({-1, *self.sealed, *self.journals, self.newest})
        return [(a + 1, b - 1) for a, b in pairwise(known) if a + 1 < b]

    @property
    def is_incomplete(self) -> bool:
        """Whether its sites and attempts may not be known in full."""
        return self.without_manifest or any(journal.damage for journal in self.journals.values())
