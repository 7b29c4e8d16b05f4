"""Reads the records of an event file and reports the damaged ones.

TensorBoard's own loader stops at the first damaged record, so the framing is read here.
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from gradwatch.sinks.event_file import masked_crc
from gradwatch.util.files import regular

_HEADER = 12
_CHECKSUM = 4
_CHUNK = 1 << 20
_LARGEST = 1 << 28
"""More bytes than any record of numbers has; larger ones are skipped."""


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
    with regular.open_file(path) as file:
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
            elif length > _LARGEST:
                yield DamagedBytes(start, end, at_end=False)
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
        window = file.read(_CHUNK + _HEADER - 1)
        if window.count(0) == len(window):
            # Where a machine lost power, a file may end in zeros, without a place on the disk.
            start = max(_next_data(file, start, size), start + _CHUNK)
            continue
        for i, length in _headers(window):
            if start + i + _HEADER + length + _CHECKSUM <= size:
                return start + i
        start += _CHUNK
    return None


def _next_data(file: BinaryIO, start: int, size: int) -> int:
    """Where a hole of the file ends, a little before."""
    if not hasattr(os, "SEEK_DATA"):
        return start
    descriptor = file.fileno()
    before = os.lseek(descriptor, 0, os.SEEK_CUR)  # The buffer relies on it.
    try:
        return os.lseek(descriptor, start, os.SEEK_DATA) - _HEADER
    except OSError as error:  # There is no more data; or a file system that does not know.
        return size if error.errno == errno.ENXIO else start
    finally:
        os.lseek(descriptor, before, os.SEEK_SET)


def _headers(window: bytes) -> Iterator[tuple[int, int]]:
    """The offsets in some bytes at which a header begins, with the lengths in them.

    At once for all offsets: one by one, some hundred megabytes of damage would take an hour.
    """
    data = np.frombuffer(window, np.uint8)
    count = data.size - _HEADER + 1
    if count <= 0:
        return
    is_zero: NDArray[np.bool_] = data == 0

    def zeros(first: int, last: int) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = is_zero[first : first + count].copy()
        for k in range(first + 1, last):
            found &= is_zero[k : k + count]
        return found

    # No length has more than four bytes, and zeros are not their own checksum.
    at = np.flatnonzero(zeros(4, 8) & ~(zeros(0, 4) & zeros(8, _HEADER)))
    length, checksum = _number_at(data, at), _number_at(data, at + 8)
    for i in np.flatnonzero(_checksums(length) == checksum).tolist():
        if length[i] <= _LARGEST:
            yield int(at[i]), int(length[i])


def _number_at(data: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.uint32]:
    parts = [data[at + k].astype(np.uint32) << np.uint32(8 * k) for k in range(4)]
    return np.asarray(parts[0] | parts[1] | parts[2] | parts[3])


def _checksums(lengths: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The masked checksums of lengths of four bytes, each followed by four zeros."""
    tables = _tables()
    crc = np.full(lengths.shape, _crc32c(0), np.uint32)
    for k in range(4):
        crc ^= tables[k][(lengths >> np.uint32(8 * k)) & np.uint32(0xFF)]
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)


@cache
def _tables() -> NDArray[np.uint32]:
    """What each byte of a length changes in its checksum, which is linear in them."""
    changes = [[_crc32c(b << (8 * k)) ^ _crc32c(0) for b in range(256)] for k in range(4)]
    return np.array(changes, np.uint32)


def _crc32c(length: int) -> int:
    import google_crc32c

    return int(google_crc32c.value(length.to_bytes(8, "little")))
