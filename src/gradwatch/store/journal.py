"""Reading a journal."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gradwatch.core import FIELDS
from gradwatch.store import columns, frames
from gradwatch.util import Json

FORMAT = 1
WRITER, SITES, ATTEMPT, READING, PICTURE, FACTS, END = "W", "S", "A", "R", "P", "F", "E"


@dataclass(frozen=True)
class Damage:
    """Something that cannot be read any more; `what` also says what the run lacks through it."""

    file: Path
    what: str

    def __str__(self) -> str:
        return f"{self.file.name}: {self.what}"


@dataclass(frozen=True)
class JournalBlock:
    """One reading or picture: its facts and its columns."""

    facts: dict[str, Json]
    arrays: dict[str, NDArray[Any]]

    @property
    def rows(self) -> int:
        return int(self.arrays["site"].size)


@dataclass
class Journal:
    """The content of a journal file, as far as it has been read.

    Call `advance` again to read on in a journal that is still being written.

    Attributes:
        writer: the facts of its first frame.
        sites: kind, path and group by the writer's site number; None for one whose
            frame was lost.
        groups: the groups of sites that the user has named.
        end: the facts of the last frame, if the writer ended properly; it may go on
            after that, when the same process opens the run again.
        torn: bytes at the end that are no whole frame (yet).
    """

    path: Path
    writer: dict[str, Json] = field(default_factory=dict)
    sites: list[tuple[str, str, str] | None] = field(default_factory=list)
    attempts: list[dict[str, Json]] = field(default_factory=list)
    readings: list[JournalBlock] = field(default_factory=list)
    pictures: list[JournalBlock] = field(default_factory=list)
    groups: dict[str, list[int]] = field(default_factory=dict)
    end: dict[str, Json] | None = None
    torn: int = 0
    damage: list[Damage] = field(default_factory=list)
    _offset: int = 0
    _next: int = 0

    @property
    def frame_count(self) -> int:
        """How many frames it has, those that were damaged and are followed by others too."""
        return self._next

    def advance(self) -> int:
        """Read what was appended since the last call; returns how many readings and pictures.

        Raises `FileNotFoundError` once the journal is sealed.
        """
        before = len(self.readings) + len(self.pictures)
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        self.torn = 0
        for found in frames.scan_all(data):
            if isinstance(found, frames.Frame):
                self._miss(found)
                self._take(found)
                self._next = found.number + 1
            elif found.at_end:
                # Not damage: it is being written, or was when its process was killed.
                self.torn = found.end - found.start
        self._offset += len(data) - self.torn
        return len(self.readings) + len(self.pictures) - before

    def _miss(self, frame: frames.Frame) -> None:
        missing = frame.number - self._next
        if missing > 0:
            self._hurt(f"{missing} record{'s' * (missing > 1)} damaged, number {self._next} on")
        elif missing < 0:
            self._hurt(f"record {frame.number} follows record {self._next - 1}")

    def _take(self, frame: frames.Frame) -> None:
        self.end = None
        try:
            facts, arrays = columns.unpack(frame.payload)
            self._understand(frame.kind, facts, arrays)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            self._hurt(f"record {frame.number} cannot be understood: {error!r}")

    def _hurt(self, what: str) -> None:
        self.damage.append(Damage(self.path, what))

    def _understand(self, kind: str, facts: dict[str, Json], arrays: dict[str, Json]) -> None:
        if kind == WRITER:
            if facts["format"] > FORMAT:
                format = facts["format"]
                raise ValueError(f"it is of format {format}; this gradwatch reads {FORMAT}")
            self.writer = facts
        elif kind == SITES:
            first, entries = facts["first"], facts["sites"]
            self.sites += [None] * (first + len(entries) - len(self.sites))
            for number, (site_kind, path, group) in enumerate(entries, first):
                self.sites[number] = (site_kind, path, group)
        elif kind == ATTEMPT:
            self.attempts.append(facts)
        elif kind == READING:
            if any(arrays[name].size != arrays["site"].size for name in FIELDS):
                raise ValueError("columns of different lengths")
            self.readings.append(JournalBlock(facts, arrays))
        elif kind == PICTURE:
            self.pictures.append(JournalBlock(facts, arrays))
        elif kind == FACTS:
            self.groups.update(facts.get("groups", {}))
        elif kind == END:
            self.end = facts
        else:
            raise KeyError(kind)
