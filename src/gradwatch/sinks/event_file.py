"""TensorBoard's event files, written without TensorFlow, TensorBoard or protobuf.

An event file is a row of records; a record is a length, a checksum of the
length, the bytes of an `Event` message and a checksum of those. Only the few
message fields that gradwatch writes are encoded here, by hand, as the protocol
buffer wire format has them; the numbers below are the field numbers in
TensorFlow's `event.proto` and `summary.proto`.
"""

import functools
import itertools
import math
import os
import re
import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gradwatch.util.files import AppendFile
from gradwatch.watches.probes import png

Array = NDArray[np.float64]

_counter = itertools.count()


class EventFile:
    """One new event file in a directory; no two writers ever share one."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._file = _create(Path(directory))

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def lost(self) -> bool:
        """Whether the file was deleted, so that a new `EventFile` is needed.

        A running TensorBoard would go on reading at the old position of the path.
        """
        return self._file.lost

    def append(self, events: Iterable[bytes]) -> None:
        """Write all the events, or none of them if that raises `OSError`."""
        self._file.append(b"".join(map(record, events)))

    def close(self) -> None:
        self._file.close()


def _create(directory: Path) -> AppendFile:
    directory.mkdir(parents=True, exist_ok=True)
    header = record(version_event(time.time()))
    host = re.sub(r"[^\w.-]", "_", socket.gethostname()) or "localhost"
    while True:
        name = f"events.out.tfevents.{_stamp(directory)}.{host}.{os.getpid()}.{next(_counter)}"
        try:
            return AppendFile(directory / f"{name}.gradwatch", exclusive=True, header=header)
        except FileExistsError:
            continue


def _stamp(directory: Path) -> str:
    """The time in the file's name: now, but later than every file that is there.

    TensorBoard reads a directory's files in the order of their names, so a run
    that is resumed within a second, or after the clock was set back, would
    otherwise be read before the attempt that it continues.
    """
    names = (re.match(r"events\.out\.tfevents\.(\d{10})\.", p.name) for p in directory.iterdir())
    stamp = max([int(time.time()), *(int(name[1]) + 1 for name in names if name)])
    return f"{min(stamp, 9_999_999_999):010d}"


def record(data: bytes) -> bytes:
    """Bytes framed as one TFRecord."""
    length = struct.pack("<Q", len(data))
    return b"".join((length, masked_crc(length), data, masked_crc(data)))


def masked_crc(data: bytes) -> bytes:
    """The checksum of a TFRecord's data."""
    import google_crc32c

    crc: int = google_crc32c.value(data)
    # Masked, because a checksum of bytes that hold their own checksum is weak.
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def version_event(wall_time: float) -> bytes:
    """The event that every file begins with."""
    return _event(wall_time, 0) + _field(3, b"brain.Event:2")


def start_event(step: int, wall_time: float) -> bytes:
    """Training (re)starts: what was recorded at `step` and later no longer counts."""
    return _event(wall_time, step) + _field(7, b"\x08\x01")


def summary_event(
    step: int, wall_time: float, values: Iterable[bytes], encoded: bytes = b""
) -> bytes:
    """The values that belong to one step; `encoded` are more, each in its `envelope`."""
    return _event(wall_time, step) + _field(5, encoded + b"".join(map(envelope, values)))


def envelope(value: bytes) -> bytes:
    """A scalar, histogram or image as one of the values of an event."""
    return _field(1, value)


def scalar(tag: str, value: float, description: str = "") -> bytes:
    """A number under a tag; it is kept as a float32, too large a one as infinity."""
    try:
        number = struct.pack("<f", value)
    except OverflowError:
        number = struct.pack("<f", math.copysign(math.inf, value))
    return _tag(tag, description) + b"\x15" + number


def histogram(
    tag: str,
    limits: Array,
    counts: Array,
    *,
    bounds: tuple[float, float],
    moments: tuple[float, float],
    description: str = "",
) -> bytes:
    """A distribution under a tag; `description` is Markdown.

    `limits` are the upper edges of the buckets, strictly ascending. `bounds` are the smallest and
    the largest element; the first is also the lower edge of the first bucket. `moments` are the sum
    of the elements and of their squares.
    """
    numbers = (*bounds, float(np.sum(counts)), *moments)
    message = b"".join(
        _key(i, 1) + struct.pack("<d", number) for i, number in enumerate(numbers, start=1)
    )
    message += _field(6, np.asarray(limits, "<f8").tobytes())
    message += _field(7, np.asarray(counts, "<f8").tobytes())
    return _tag(tag, description) + _field(5, message)


def image(tag: str, pixels: NDArray[np.uint8], description: str = "") -> bytes:
    """An RGB image, of shape (height, width, 3), under a tag."""
    height, width, channels = pixels.shape
    message = b"".join(
        _key(i, 0) + _varint(n) for i, n in enumerate((height, width, channels), start=1)
    )
    return _tag(tag, description) + _field(4, message + _field(4, png.encode(pixels)))


def _event(wall_time: float, step: int) -> bytes:
    return b"\x09" + struct.pack("<d", wall_time) + b"\x10" + _varint(step)


@functools.lru_cache(maxsize=100_000)  # A run writes the same tags at every step.
def _tag(tag: str, description: str) -> bytes:
    start = _field(1, _text(tag))
    return start + _field(9, _field(3, _text(description))) if description else start


def _text(text: str) -> bytes:
    # A reader rejects the whole event when a string in it is not valid UTF-8,
    # which a lone surrogate cannot be written as.
    return text.encode("utf-8", errors="backslashreplace")


def _field(number: int, data: bytes) -> bytes:
    return _key(number, 2) + _varint(len(data)) + data


@functools.cache
def _key(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    if 0 <= value <= 0x7F:
        return bytes((value,))
    value &= 0xFFFF_FFFF_FFFF_FFFF  # a negative number is written as its 64-bit complement
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)
