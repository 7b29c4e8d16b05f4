"""How often the faults are tried, and where their processes come from."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.nursery import Nursery

# It changes gradwatch as it is imported, and so must be imported first: a script, no module.
collect_ignore = ["injecting.py"]


@pytest.fixture(scope="session")
def count() -> Callable[[int, int], int]:
    """`count(few, all_of_them)`: how often to try; all with GRADWATCH_FAULTS=full."""
    is_full = os.environ.get("GRADWATCH_FAULTS") == "full"
    return lambda few, many: many if is_full else few


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Starts processes, see `Nursery`."""
    nursery = Nursery(tmp_path_factory.mktemp("output"))
    yield nursery
    nursery.close()


class Disk:
    """A file system of its own; call it with its size in kB to have it made."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __call__(self, kilobytes: int) -> Path:
        self.place.mkdir()
        self._mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(self.place))
        return self.place

    def make_read_only(self) -> None:
        self._mount("-o", "remount,ro", str(self.place))

    def _mount(self, *arguments: str) -> None:
        try:
            done = subprocess.run(["mount", *arguments], capture_output=True, text=True, timeout=60)
        except OSError as fault:
            pytest.skip(f"there is no mount here: {fault}")
        if done.returncode:
            pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path / "disk")
    yield disk
    if disk.place.is_mount():
        subprocess.run(["umount", "-l", str(disk.place)], check=True, timeout=60)
