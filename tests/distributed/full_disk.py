"""A disk without space, for one of several processes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.conftest import Disk

_WHY_NOT = "no-full-disk"
RUNS = 12


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Make `folder/disk` a file system that is full, with the empty directories `run0`, `run1`, ...

    Where mounting is not permitted it is an ordinary directory, and `require_full_disk` skips.
    """
    place = folder / "disk"
    try:
        Disk(place)(64)
    except pytest.skip.Exception as why:
        (folder / _WHY_NOT).write_text(str(why))
    try:
        for number in range(RUNS):
            (place / f"run{number}").mkdir()
        if place.is_mount():
            with pytest.raises(OSError, match="No space left"):
                (place / "filler").write_bytes(bytes(1 << 20))
        yield
    finally:
        if place.is_mount():
            subprocess.run(["umount", "-l", str(place)], check=True, timeout=60)


def require_full_disk(folder: Path) -> None:
    """Skip the test if the disk could not be made for the training in a folder."""
    if (folder / _WHY_NOT).exists():
        pytest.skip((folder / _WHY_NOT).read_text())


def bytes_of_journals(place: Path) -> int:
    """How much of a run is on a disk."""
    return sum(path.stat().st_size for path in place.glob("journal-*"))
