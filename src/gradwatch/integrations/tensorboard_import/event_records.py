"""The records of a TFRecord file, each checked; what is damaged is told and passed over."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import google_crc32c

_HEADER = 12
_CHECKSUM = 4
_CHUNK = 1 << 16
FRAMING = _HEADER + _CHECKSUM
"""The bytes that a record takes beside its data."""


@dataclass(frozen=True)
class Record:
    """The bytes of one record, and where it ends in its file."""

    data: bytes
    end: int


@dataclass(frozen=True)
class Gap:
    """Bytes of a file, from `start` to `end`, that are no whole record.

    Attributes:
        at_end: nothing follows: the file is being written, or its process was killed.
    """

    start: int
    end: int
    at_end: bool


def read(path: Path) -> Iterator[Record | Gap]:
    """What the file holds, in its order, a record at a time.

    The length of a record has a checksum of its own. So a record with damaged content
    is passed over by its length; and after a damaged length, the next record is where the
    bytes fit their checksums again.

    Example:

    >>> import pathlib, tempfile
    >>> from gradwatch.integrations.tensorboard_import import records
    >>> from gradwatch.sinks.event_file import record
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a"
    >>> _ = path.write_bytes(record(b"one") + record(b"two")[:-1] + b"?" + record(b"three")[:-2])
    >>> [(r.data if isinstance(r, records.Record) else r) for r in records.read(path)]
    [b'one', Gap(start=19, end=38, at_end=False), Gap(start=38, end=57, at_end=True)]
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        start = 0
        while start < size:
            length = _length_at(file, start)
            end = start + _HEADER + (length or 0) + _CHECKSUM
            if length is not None and end > size:
                yield Gap(start, size, at_end=True)
                return
            if length is None:
                found = _next_record(file, start + 1, size)
                yield Gap(start, size if found is None else found, at_end=found is None)
                start = size if found is None else found
                continue
            data = file.read(length)
            if file.read(_CHECKSUM) == masked_crc(data):
                yield Record(data, end)
            else:
                yield Gap(start, end, at_end=False)
            start = end


def masked_crc(data: bytes) -> bytes:
    """The checksum of a record, as it stands in the file."""
    crc: int = google_crc32c.value(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _length_at(file: BinaryIO, offset: int) -> int | None:
    """The length of the record that begins there; None if none does."""
    file.seek(offset)
    return _length(file.read(_HEADER))


def _length(header: bytes) -> int | None:
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
