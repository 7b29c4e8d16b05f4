"""Reads the records of an event file and reports the damaged ones.

TensorBoard's own loader stops at the first damaged record, so the framing is read here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gradwatch.sinks.event_file import masked_crc

_HEADER = 12
_CHECKSUM = 4
_CHUNK = 1 << 16


@dataclass(frozen=True)
class EventRecord:
    """The data of one record, and the offset at which the record ends."""

    data: bytes
    end: int

    @property
    def size(self) -> int:
        """The size of the record in the file, with its length and checksums."""
        return _HEADER + len(self.data) + _CHECKSUM


@dataclass(frozen=True)
class DamagedBytes:
    """Bytes of a file, from `start` to `end`, that are not a whole record.

    With `at_end` the file ends within a record: it is being written, or its process was killed.
    """

    start: int
    end: int
    at_end: bool

    def __str__(self) -> str:
        problem = "the file ends within a record" if self.at_end else "damaged, skipped"
        return f"bytes {self.start:,} to {self.end:,}: {problem}"


def read_records(path: Path) -> Iterator[EventRecord | DamagedBytes]:
    """The records of a file in order, with the damaged stretches between them.

    A record's length has its own checksum, so a record with damaged data is skipped by its
    length. After a damaged length, reading continues where the checksums match again.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        start = 0
        while start < size:
            file.seek(start)
            length = _length(file.read(_HEADER))
            if length is None:
                found = _next_record(file, start + 1, size)
                end = size if found is None else found
                yield DamagedBytes(start, end, at_end=size - start < _HEADER)
            elif (end := start + _HEADER + length + _CHECKSUM) > size:
                end = size
                yield DamagedBytes(start, end, at_end=True)
            else:
                data = file.read(length)
                is_intact = file.read(_CHECKSUM) == masked_crc(data)
                yield EventRecord(data, end) if is_intact else DamagedBytes(start, end, False)
            start = end


def _length(header: bytes) -> int | None:
    """The length in a record's header; None if its checksum does not match."""
    if len(header) < _HEADER or masked_crc(header[:8]) != header[8:]:
        return None
    return int.from_bytes(header[:8], "little")


def _next_record(file: BinaryIO, start: int, size: int) -> int | None:
    """The next offset at which a whole record begins."""
    while start < size:
        file.seek(start)
        window = file.read(_CHUNK + _HEADER)
        for i in range(min(len(window), _CHUNK)):
            length = _length(window[i : i + _HEADER])
            if length is not None and start + i + _HEADER + length + _CHECKSUM <= size:
                return start + i
        start += _CHUNK
    return None
