"""An open run that is kept up to date."""

import os
import threading
import time
from collections.abc import Hashable
from pathlib import Path

from gradwatch.store import SEGMENTS
from gradwatch.view.data import RunView

MAX_AGE, MAX_AGE_REMOTE = 0.5, 10.0
"""Seconds before a run's files are checked again, locally and at a URL."""


class LiveRun:
    """A run that requests are answered from.

    The signature of its files was taken before opening, so `refresh` finds later changes.
    """

    def __init__(self, view: RunView, signature: Hashable) -> None:
        self.view, self.signature = view, signature
        self._lock = threading.Lock()
        self._checked = time.monotonic()
        self._has_changed = False

    def refresh(self, max_age: float | None = None) -> None:
        """Read new rows if the last check is older than `max_age` seconds."""
        run = self.view.run
        is_remote = hasattr(run, "url")
        if is_remote or max_age is None:
            max_age = MAX_AGE_REMOTE if is_remote else MAX_AGE
        with self._lock:
            if time.monotonic() - self._checked < max_age:
                return
            signature = signature_of(run.path)
            if signature != self.signature or is_remote:
                self._has_changed = run.refresh() or self._has_changed
                self.signature = signature_of(run.path) if is_remote else signature
            self._checked = time.monotonic()

    def take_change(self) -> bool:
        """Whether the run has changed since the last call of this method."""
        with self._lock:
            has_changed, self._has_changed = self._has_changed, False
            return has_changed


def signature_of(directory: Path) -> Hashable:
    """Changes whenever the file system reports a change of a run's files."""
    found = []
    for folder in (directory, directory / SEGMENTS):
        try:
            with os.scandir(folder) as entries:
                for each in entries:
                    about = each.stat(follow_symlinks=False)
                    found.append((each.name, about.st_size, about.st_mtime_ns))
        except OSError:
            continue
    return tuple(sorted(found))
