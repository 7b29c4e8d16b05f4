"""What is known of files, for as long as they do not change."""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import google_crc32c

from gradwatch.util.files import regular

T = TypeVar("T")
_CHUNK = 1 << 22


class FileCache(Generic[T]):
    """Reads each file once, and again when its size, inode or time of change is another.

    `get` raises `OSError` in words for what is no regular file.
    """

    def __init__(self, read: Callable[[Path], T]) -> None:
        self._read = read
        self._known: dict[Path, tuple[tuple[int, ...], T]] = {}

    def get(self, path: Path) -> T:
        found = regular.status(path)
        # Before it is read: if it changes meanwhile, it is read again the next time.
        identity = found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns
        known = self._known.get(path)
        if known is None or known[0] != identity:
            known = self._known[path] = (identity, self._read(path))
        return known[1]


def crc32c(path: Path) -> str:
    """The checksum of a file, as names of segments and manifests have it."""
    checksum = google_crc32c.Checksum()
    with regular.open_file(path) as file:
        while chunk := file.read(_CHUNK):
            checksum.update(chunk)
    return str(checksum.digest().hex())
