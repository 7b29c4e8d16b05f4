"""JSON files that know whether they are whole."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import google_crc32c

from gradwatch.util.files import atomic, regular

CHECKSUM = "crc32c"
_COMPACT = (",", ":")


class DamagedError(ValueError):
    """What was read is not what was written."""


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Replace the file atomically by `content` and its checksum.

    NaN and infinities are refused: no reader of strict JSON would take them.
    """
    atomic.replace(path, dumps(content))


def dumps(content: Mapping[str, Any]) -> bytes:
    """What `write` writes: a line for each key."""
    content = {**content, CHECKSUM: _checksum(content)}
    # Not `indent`, with which json takes twenty times as long and holds up all other threads.
    lines = (
        f" {json.dumps(key)}: {json.dumps(value, separators=_COMPACT, allow_nan=False)}"
        for key, value in content.items()
    )
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii")


class Known:
    """Long values that have been read before.

    A thousand files that have one in common take the time, and the memory, of one. So these
    values are shared: change none.
    """

    LONG = 1 << 10

    def __init__(self) -> None:
        self._values: dict[bytes, Any] = {}

    def value(self, text: bytes) -> tuple[Any, bytes]:
        """What a text says, and its canonical spelling."""
        digest = hashlib.blake2b(text).digest() if len(text) >= self.LONG else b""
        if digest in self._values:
            return self._values[digest], text
        value = json.loads(text)
        spelled = _canonical(value)
        if digest and spelled == text:
            self._values[digest] = value
        return value, spelled


def read(path: Path, known: Known | None = None) -> dict[str, Any]:
    """The content without its checksum; raises `DamagedError` if `write` did not write it so.

    `known` is where to look for long values that other files have too. Raises `OSError` in words
    if it is no regular file, or far too large.
    """
    return loads(regular.read_bytes(path), path, known)


def loads(data: bytes, path: Path, known: Known | None = None) -> dict[str, Any]:
    """The same from the bytes of the file; the path is for the message."""
    if known is not None:
        content = _by_lines(data, known)
        if content is not None:
            return content
    try:
        content = json.loads(data.decode("ascii"))
        checksum = content.pop(CHECKSUM)
        whole = checksum == _checksum(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{path} is damaged: {type(error).__name__}: {error}") from None
    if not whole:
        raise DamagedError(f"{path} is damaged: its checksum does not fit its content.")
    return dict(content)


def _by_lines(data: bytes, known: Known) -> dict[str, Any] | None:
    """The content of a file as `dumps` writes it; None if it is not so, or damaged."""
    first, *lines, last, end = data.split(b"\n") if data.count(b"\n") > 1 else [b""] * 3
    if (first, last, end) != (b"{", b"}", b""):
        return None
    content: dict[str, Any] = {}
    spelled: dict[str, bytes] = {}
    try:
        for line in lines:
            key, _, text = line.partition(b": ")
            name = json.loads(key)
            content[name], spelled[name] = known.value(text.removesuffix(b","))
        checksum = content.pop(CHECKSUM)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    parts = [_canonical(name) + b":" + spelled[name] for name in sorted(content)]
    whole = len(content) == len(lines) - 1
    whole = whole and checksum == _crc32c(b"{" + b",".join(parts) + b"}")
    return content if whole else None


def _checksum(content: Mapping[str, Any]) -> str:
    # Of the content in one canonical spelling: reformatting a file is no damage.
    return _crc32c(_canonical({k: v for k, v in content.items() if k != CHECKSUM}))


def _canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=_COMPACT, allow_nan=False)
    return text.encode("ascii")


def _crc32c(data: bytes) -> str:
    return f"{google_crc32c.value(data):08x}"
