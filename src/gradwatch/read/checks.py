"""Whether a sealed file is what was written.

DuckDB does not check the pages of a Parquet file: a flipped bit would come out as
another number. So every file is read through once and compared with its checksum
before DuckDB sees it.
"""

from __future__ import annotations

from pathlib import Path

import google_crc32c

_CHUNK = 1 << 22


class Checks:
    """Remembers which files have been found whole, so that each is read through once.

    A file is taken for the same as long as its size, its inode and its times of
    change are.

    Example:

    >>> import pathlib, tempfile
    >>> from gradwatch.read.checks import Checks, crc32c
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a"
    >>> _ = path.write_bytes(b"abc")
    >>> checks = Checks()
    >>> checks.fault(path, crc32c(path))
    >>> checks.fault(path, "00000000")
    'its checksum is 364b3fb7, not 00000000'
    """

    def __init__(self) -> None:
        self._found: dict[Path, tuple[tuple[int, ...], str]] = {}

    def fault(self, path: Path, checksum: str) -> str | None:
        """What is wrong with the file, in words; None if it is whole."""
        try:
            identity = identity_of(path)
            known = self._found.get(path)
            if known is None or known[0] != identity:
                known = self._found[path] = (identity, crc32c(path))
        except FileNotFoundError:
            return "it is missing"
        except OSError as error:
            return f"it cannot be read ({error.strerror or error})"
        return None if known[1] == checksum else f"its checksum is {known[1]}, not {checksum}"


def identity_of(path: Path) -> tuple[int, ...]:
    """What changes when a file does."""
    found = path.stat()
    return found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def crc32c(path: Path) -> str:
    """The checksum of a file, as it stands in names and manifests."""
    checksum = google_crc32c.Checksum()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            checksum.update(chunk)
    return str(checksum.digest().hex())
