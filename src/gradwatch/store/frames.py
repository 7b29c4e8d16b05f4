"""Frames: records in a file, each with a checksum.

A frame is a header (magic, kind, number, length, checksum) and a payload. The
checksum covers both. Frames are numbered from 0 in their file, so that one
that is missing from the middle is noticed.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import google_crc32c

# Its first byte is never a part of ASCII text, and so not of the names in a payload.
MAGIC = b"\xf5GW1"
_HEADER = struct.Struct("<4sBxxxIII")
_COVERED = struct.Struct("<BII")
HEADER_SIZE = _HEADER.size
LARGEST = 1 << 30


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

    `at_end` if no frame follows: a frame that was being written when its process
    ended, or is being written right now.
    """

    start: int
    end: int
    at_end: bool


def encode(kind: str, number: int, payload: bytes) -> bytes:
    if len(payload) > LARGEST:
        raise ValueError(f"A frame holds at most {LARGEST} bytes. Received: {len(payload)}")
    code = ord(kind)
    return _HEADER.pack(MAGIC, code, number, len(payload), _check(code, number, payload)) + payload


def scan(data: bytes, start: int = 0) -> Iterator[Frame]:
    """The whole frames in `data` from the offset `start` on, damage passed over."""
    return (found for found in scan_all(data, start) if isinstance(found, Frame))


def scan_all(data: bytes, start: int = 0) -> list[Frame | FrameGap]:
    """The whole frames in `data` from the offset `start` on, and the gaps between them."""
    found: list[Frame | FrameGap] = []
    at = gap = start
    while at >= 0:
        frame = _frame_at(data, at)
        if frame is not None:
            if gap < at:
                found.append(FrameGap(gap, at, at_end=False))
            found.append(frame)
            at = gap = frame.end
        else:
            # After damage, the next whole frame may begin anywhere.
            at = data.find(MAGIC, at + 1)
    if gap < len(data):
        found.append(FrameGap(gap, len(data), at_end=True))
    return found


def _frame_at(data: bytes, at: int) -> Frame | None:
    if len(data) - at < HEADER_SIZE:
        return None
    magic, code, number, length, checksum = _HEADER.unpack_from(data, at)
    begin, end = at + HEADER_SIZE, at + HEADER_SIZE + length
    if magic != MAGIC or end > len(data):
        return None
    payload = bytes(data[begin:end])
    if checksum != _check(code, number, payload):
        return None
    return Frame(chr(code), number, payload, at, end)


def _check(code: int, number: int, payload: bytes) -> int:
    start = google_crc32c.value(_COVERED.pack(code, number, len(payload)))
    return int(google_crc32c.extend(start, payload))
