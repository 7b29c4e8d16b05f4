"""Frames: records in a file, each with a checksum.

A frame is a header (magic, kind, number, length, checksum) and a payload. The
checksum covers both. Frames are numbered from 0 in their file, so that one
that is missing from the middle is noticed.
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import google_crc32c

# Its first byte is never a part of ASCII text, and so not of the names in a payload.
MAGIC = b"\xf5GW1"
_HEADER = struct.Struct("<4sBxxxIII")
_COVERED = struct.Struct("<BII")
HEADER_SIZE = _HEADER.size
LARGEST = 1 << 30
_CHUNK = 1 << 20
_EFFORT = 1 << 27
"""How many bytes are read in vain, in search of the frames behind damage, before giving up."""
_TRIAL = 1 << 10
"""What it costs to try whether a frame begins somewhere, in bytes."""


@dataclass(frozen=True)
class Frame:
    """One record; `kind` is a letter, and `number` its place in the file, from 0."""

    kind: str
    number: int
    payload: bytes
    start: int
    end: int


@dataclass(frozen=True)
class FrameGap:
    """A stretch of the file, `start` to `end`, that holds no whole frame.

    `at_end` if it is the beginning of a frame that the end of the file cuts off: it was being
    written when its process ended, or is being written right now. All else is damage.
    """

    start: int
    end: int
    at_end: bool


def encode(kind: str, number: int, payload: bytes) -> bytes:
    if len(payload) > LARGEST:
        raise ValueError(f"A frame holds at most {LARGEST} bytes. Received: {len(payload)}")
    code = ord(kind)
    header = _HEADER.pack(MAGIC, code, number, len(payload), _check(code, number, payload))
    return header + payload


def scan(data: bytes, start: int = 0) -> Iterator[Frame]:
    """The whole frames in `data` from the offset `start` on, damage passed over."""
    return (found for found in scan_all(data, start) if isinstance(found, Frame))


def scan_all(data: bytes, start: int = 0) -> list[Frame | FrameGap]:
    """The whole frames in `data` from the offset `start` on, and the gaps between them."""
    return list(scan_file(io.BytesIO(data), start, len(data)))


def scan_file(file: BinaryIO, start: int, size: int) -> Iterator[Frame | FrameGap]:
    """The whole frames of a file that has `size` bytes, and the gaps between them.

    Only one frame at a time is in memory.
    """
    at = gap = start
    effort = 0
    while at < size and effort < _EFFORT:
        frame, spent = _frame_at(file, at, size)
        if frame is not None:
            if gap < at:
                yield FrameGap(gap, at, at_end=False)
            yield frame
            at = gap = frame.end
        else:
            # After damage, the next whole frame may begin anywhere.
            after = _find_magic(file, at + 1, min(size, at + 1 + _EFFORT - effort))
            effort += _TRIAL + spent + after - at
            at = after
    if gap < size:
        yield from _rest(file, gap, size)


def _rest(file: BinaryIO, start: int, size: int) -> Iterator[FrameGap]:
    """The bytes behind the last whole frame: damage, and the beginning of a frame."""
    at = start
    while at < size:
        header = _header_at(file, at, size)
        if header is None or header.end > size:
            break
        at = header.end  # A frame of full length: its process did not end within it.
    if at < size and not _is_cut_off(file, at, size):
        at = size
    if start < at:
        yield FrameGap(start, at, at_end=False)
    if at < size:
        yield FrameGap(at, size, at_end=True)


def _is_cut_off(file: BinaryIO, at: int, size: int) -> bool:
    """Whether the last bytes of a file are what a process leaves that ends while it writes."""
    header = _header_at(file, at, size)
    if header is None:
        file.seek(at)
        beginning = file.read(min(size - at, HEADER_SIZE))
        return len(beginning) < HEADER_SIZE and MAGIC.startswith(beginning[: len(MAGIC)])
    if not chr(header.code).isupper() or not chr(header.code).isascii():
        return False
    # Else all of the frame is there, and its length is what is damaged.
    length = size - header.begin
    return header.checksum != _check_file(file, header.code, header.number, header.begin, length)


@dataclass(frozen=True)
class _Header:
    code: int
    number: int
    begin: int
    end: int
    checksum: int


def _header_at(file: BinaryIO, at: int, size: int) -> _Header | None:
    """The header that is there, also of a frame that the end of the file cuts off."""
    file.seek(at)
    data = file.read(HEADER_SIZE) if size - at >= HEADER_SIZE else b""
    if len(data) < HEADER_SIZE:
        return None
    magic, code, number, length, checksum = _HEADER.unpack(data)
    if magic != MAGIC or length > LARGEST:
        return None
    begin = at + HEADER_SIZE
    return _Header(code, number, begin, begin + length, checksum)


def _frame_at(file: BinaryIO, at: int, size: int) -> tuple[Frame | None, int]:
    """The whole frame that is there, if any, and how many bytes were read to find out."""
    header = _header_at(file, at, size)
    if header is None or header.end > size:
        return None, 0
    length = header.end - header.begin
    if length > _CHUNK and header.checksum != _check_file(
        file, header.code, header.number, header.begin, length
    ):
        return None, length
    file.seek(header.begin)
    payload = file.read(length)
    if header.checksum != _check(header.code, header.number, payload):
        return None, length
    return Frame(chr(header.code), header.number, payload, at, header.end), length


def _find_magic(file: BinaryIO, start: int, end: int) -> int:
    """Where a frame may begin next; `end` if nowhere before."""
    before = b""
    file.seek(start)
    while start < end:
        chunk = file.read(min(_CHUNK, end - start))
        if not chunk:
            break
        found = (before + chunk).find(MAGIC)
        if found >= 0:
            return start - len(before) + found
        start += len(chunk)
        before = chunk[1 - len(MAGIC) :]
    return end


def _check(code: int, number: int, payload: bytes) -> int:
    start = google_crc32c.value(_COVERED.pack(code, number, len(payload)))
    return int(google_crc32c.extend(start, payload))


def _check_file(file: BinaryIO, code: int, number: int, begin: int, length: int) -> int:
    """The same of a payload in a file, read piece by piece."""
    found = google_crc32c.value(_COVERED.pack(code, number, length))
    file.seek(begin)
    while length > 0 and (chunk := file.read(min(_CHUNK, length))):
        found = google_crc32c.extend(found, chunk)
        length -= len(chunk)
    return int(found)
