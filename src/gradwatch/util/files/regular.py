"""Reading files that others may have made: only regular ones, and only so much."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

LARGEST_JSON = 1 << 27
"""More bytes than the description of any run, or a manifest, has."""
_NAMES = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class UnreadableError(OSError):
    """Not a regular file, or larger than it may be."""


def status(path: Path) -> os.stat_result:
    """Of a regular file, or a link to one; raises `UnreadableError` in words for anything else."""
    found = path.stat()
    check(found.st_mode, path)
    return found


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading; to open a pipe would wait for somebody who writes to it."""
    status(path)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    try:
        check(os.fstat(descriptor).st_mode, path)  # It may be another one by now.
        return os.fdopen(descriptor, "rb", buffering=1 << 16)
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path, largest: int = LARGEST_JSON) -> bytes:
    """All of a regular file; raises `UnreadableError` in words if it is larger than it may be."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(largest + 1) if size <= largest else b""
    if max(size, len(data)) > largest:
        what = f"it has more than {largest:,} bytes"
        raise UnreadableError(errno.EFBIG, what, str(path))
    return data


def check(mode: int, path: Path) -> None:
    """Raise `UnreadableError` in words unless the mode is that of a regular file."""
    if not stat.S_ISREG(mode):
        what = f"it is {_NAMES.get(stat.S_IFMT(mode), 'something else')}, not a file"
        raise UnreadableError(errno.EINVAL, what, str(path))
