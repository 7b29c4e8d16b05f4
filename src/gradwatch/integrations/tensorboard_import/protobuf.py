"""The protocol buffer wire format, as far as it takes to find a message's fields."""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class MessageError(ValueError):
    """Bytes that are no message."""


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field, in the order written.

    A varint comes as a whole number that is not negative, everything else as its bytes:
    those of a number, of a text or of a message within the message.

    Raises:
        MessageError: it is not a message.

    Example:

    >>> from gradwatch.integrations.tensorboard_import import protobuf
    >>> list(protobuf.fields(b"\\x10\\x96\\x01\\x0a\\x02hi"))
    [(2, 150), (1, b'hi')]
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if wire_type == BYTES:
            size, at = _varint(message, at)
        elif wire_type in (FIXED64, FIXED32):
            size = 8 if wire_type == FIXED64 else 4
        else:
            raise MessageError(f"a field of wire type {wire_type}")
        if at + size > len(message):
            raise MessageError("a field that is longer than its message")
        yield number, message[at : at + size]
        at += size


def signed(value: int) -> int:
    """A varint as the int64 that it was written from."""
    return value - (1 << 64) if value >= 1 << 63 else value


def double(data: int | bytes) -> float:
    """A number of 8 bytes."""
    return _unpack("<d", data)


def single(data: int | bytes) -> float:
    """A number of 4 bytes."""
    return _unpack("<f", data)


def text(data: int | bytes) -> str:
    """A text; bytes that are none are spelled out."""
    return octets(data).decode("utf-8", errors="backslashreplace")


def octets(data: int | bytes) -> bytes:
    """The bytes of a field that must have some."""
    if isinstance(data, int):
        raise MessageError("a whole number where there should be bytes")
    return data


def whole(data: int | bytes) -> int:
    """The value of a field that must be a whole number."""
    if not isinstance(data, int):
        raise MessageError("bytes where there should be a whole number")
    return signed(data)


def varints(data: bytes) -> Iterator[int]:
    """A row of varints, written as one field."""
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield signed(value)


def _unpack(form: str, data: int | bytes) -> float:
    try:
        return float(struct.unpack(form, octets(data))[0])
    except struct.error as error:
        raise MessageError(str(error)) from None


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise MessageError("it ends within a number")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise MessageError("a number of more than ten bytes")
