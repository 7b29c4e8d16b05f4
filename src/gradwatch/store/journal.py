"""Reading a journal."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import CELLS, FIELDS
from gradwatch.store import checks, columns, frames
from gradwatch.store import file_names as names
from gradwatch.util import Json
from gradwatch.util.files import regular

FORMAT = 1
_DAMAGES = 20
"""So many damaged records are reported each by itself."""
_UNKNOWN_SITES = 1 << 20
"""So many sites may be missing before one that is known."""
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
    _settled: int = 0
    _more: int = 0
    _known: set[tuple[str, str, str]] = field(default_factory=set)

    @property
    def frame_count(self) -> int:
        """How many frames it has, those that were damaged and are followed by others too."""
        return self._next

    def advance(self) -> int:
        """Read what was appended since the last call; returns how many readings and pictures.

        Raises `FileNotFoundError` once the journal is sealed, another `OSError` in words if it is
        no file.
        """
        before = len(self.readings) + len(self.pictures)
        # What was no whole frame before may be one now.
        del self.damage[self._settled :]
        self.torn = broken = 0
        with regular.open_file(self.path) as file:
            size = os.fstat(file.fileno()).st_size
            for found in frames.scan_file(file, self._offset, size):
                if isinstance(found, frames.Frame):
                    self._miss(found)
                    self._take(found)
                    self._next, self._offset, broken = found.number + 1, found.end, 0
                elif found.at_end:
                    # Not damage: it is being written, or was when its process was killed.
                    self.torn = found.end - found.start
                else:
                    broken = found.end - found.start
        self._settled = len(self.damage)
        if broken:
            self._hurt(f"its last {broken:,} bytes are damaged, record {self._next} on")
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
            self._understand(frame, facts, arrays)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            self._hurt(f"record {frame.number} cannot be understood: {checks.reason(error)}")

    def _hurt(self, what: str) -> None:
        if len(self.damage) < _DAMAGES:
            self.damage.append(Damage(self.path, what))
        else:
            self._more += 1
            self.damage[_DAMAGES:] = [Damage(self.path, f"{self._more:,} more places like these")]

    def _understand(
        self, frame: frames.Frame, facts: dict[str, Json], arrays: dict[str, NDArray[Any]]
    ) -> None:
        kind = frame.kind
        if kind == WRITER:
            self._check_writer(facts)
            self.writer = facts
        elif kind == SITES:
            entries = checks.each(checks.site, checks.sequence(facts["sites"]))
            # Each has a place in the file, unless that was cut out.
            first = checks.whole(facts["first"], 0, _UNKNOWN_SITES + frame.end)
            if len(set(entries)) < len(entries) or not self._known.isdisjoint(entries):
                raise ValueError("one site has two numbers")
            self._known.update(entries)
            self.sites += [None] * (first + len(entries) - len(self.sites))
            self.sites[first : first + len(entries)] = entries
        elif kind == ATTEMPT:
            self.attempts.append(checks.attempt(facts))
        elif kind == READING:
            checks.fields(facts, _READING)
            facts["lost_rows"] = facts.get("lost_rows") or 0
            _check_rows(arrays)
            self.readings.append(JournalBlock(facts, arrays))
        elif kind == PICTURE:
            checks.fields(facts, _PICTURE)
            if arrays["png"].dtype != np.uint8 or columns.is_constant(arrays["png"]):
                raise ValueError("its picture is none")
            self.pictures.append(JournalBlock(facts, arrays))
        elif kind == FACTS:
            self.groups.update(checks.groups(facts.get("groups", {})))
        elif kind == END:
            self.end = {**checks.end(facts), "lost_rows": facts.get("lost_rows") or 0}
        else:
            raise ValueError(f"it is of the unknown kind {checks.shown(kind)}")

    def _check_writer(self, facts: dict[str, Json]) -> None:
        format = checks.whole(facts.get("format"))
        if format > FORMAT:
            raise ValueError(f"it is of format {format}; this gradwatch reads {FORMAT}")
        checks.whole(facts.get("number"))
        name = names.parse_journal(self.path.name)
        if name is not None:
            checks.writer(facts, name.writer)
            if facts["number"] != name.number:
                raise ValueError(f"it is journal {facts['number']}")


def _check_rows(arrays: dict[str, NDArray[Any]]) -> None:
    """Raise `ValueError` unless the columns of a reading are rows of sites and their cells."""
    site, rows, cell = arrays["site"], arrays["cell_row"], arrays["cell"]
    if any(arrays[name].size != site.size for name in FIELDS):
        raise ValueError("columns of different lengths")
    if rows.size != cell.size or rows.size != arrays["cell_count"].size:
        raise ValueError("columns of cells of different lengths")
    # A site has one row, and a cell one number. So no reading is longer than its bytes allow.
    if columns.is_constant(site) or (columns.is_constant(rows) and columns.is_constant(cell)):
        raise ValueError("one site several times")
    numbers = [site, rows, cell, arrays["cell_count"]]
    if any(each.dtype.kind not in "iu" for each in numbers):
        raise ValueError("a site or cell that is no whole number")
    limits = (checks.LARGEST_INDEX + 1, site.size, CELLS)
    for values, limit in zip(numbers, limits, strict=False):
        if values.size and not (values.min() >= 0 and values.max() < limit):
            raise ValueError("a site or cell that cannot be")


_WHEN: Mapping[str, Callable[[Json], Any]] = {
    "step": checks.step,
    "epoch": checks.step,
    "time": checks.moment,
    "attempt": checks.index,
}
_READING = {
    **_WHEN,
    "micro_batch": lambda value: checks.optional(checks.index, value),
    "lost_rows": lambda value: checks.optional(checks.whole, value),
}
_PICTURE = {**_WHEN, "site": checks.index}
