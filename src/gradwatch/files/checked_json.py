"""JSON files that know whether they are whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import google_crc32c

from gradwatch.files import atomic

CHECKSUM = "crc32c"


class DamagedError(ValueError):
    """What was read is not what was written."""


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Replace the file atomically by `content` and its checksum.

    NaN and infinities are refused: no reader of strict JSON would take them.

    >>> import pathlib, tempfile
    >>> from gradwatch.files import checked_json
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.json"
    >>> checked_json.write(path, {"a": 1})
    >>> checked_json.read(path)
    {'a': 1}
    """
    atomic.replace(path, dumps(content))


def dumps(content: Mapping[str, Any]) -> bytes:
    """What `write` writes."""
    content = {**content, CHECKSUM: _checksum(content)}
    return json.dumps(content, indent=1, allow_nan=False).encode("ascii") + b"\n"


def read(path: Path) -> dict[str, Any]:
    """The content of the file, without its checksum.

    Raises:
        OSError: it cannot be read.
        DamagedError: it is not what `write` wrote.
    """
    return loads(path.read_bytes(), path)


def loads(data: bytes, path: Path) -> dict[str, Any]:
    """The same from the bytes of the file; the path is for the message.

    Raises:
        DamagedError: it is not what `write` wrote.
    """
    try:
        content = json.loads(data.decode("ascii"))
        checksum = content.pop(CHECKSUM)
        whole = checksum == _checksum(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{path} is damaged: {type(error).__name__}: {error}") from None
    if not whole:
        raise DamagedError(f"{path} is damaged: its checksum does not fit its content.")
    return dict(content)


def _checksum(content: Mapping[str, Any]) -> str:
    # Of the content in one canonical spelling: reformatting a file is no damage.
    text = json.dumps(
        {k: v for k, v in content.items() if k != CHECKSUM},
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
    )
    return f"{google_crc32c.value(text.encode('ascii')):08x}"
