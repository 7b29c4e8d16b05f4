"""Replacing a file as a whole, so that a crash leaves the old one or the new one."""

import contextlib
import os
import secrets
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Write `data` as the file `path`, durably; on `OSError` the file is as it was."""
    temporary = beside(path)
    try:
        with temporary.open("xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        publish(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def beside(path: Path) -> Path:
    """A name in the same directory that nobody else uses and readers pass over."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def publish(temporary: Path, path: Path) -> None:
    """Give a written and synced file its name, durably."""
    temporary.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable, where the system can."""
    # Windows cannot open a directory, and some network file systems cannot sync one.
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
