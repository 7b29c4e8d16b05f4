"""A run that is open, and kept up to date."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Hashable
from pathlib import Path

from gradwatch.store import SEGMENTS
from gradwatch.view.data import Shown

FRESH, FRESH_REMOTE, FRESH_NOW = 0.5, 10.0, 0.0
"""For so many seconds a look at a run's files is good; one at a URL is asked for less often."""


class OpenedRun:
    """A run that requests are answered from.

    Args:
        shown: the run, just opened.
        key: its signature, taken before: what was written meanwhile is read at the next look.

    Attributes:
        shown: the run.
        key: stands for its content as it was last looked at.
    """

    def __init__(self, shown: Shown, key: Hashable) -> None:
        self.shown, self.key = shown, key
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._has_changed = False

    def bring_up_to_date(self, fresh: float | None = None) -> None:
        """Read what has been written since, if the last look is too long ago.

        Args:
            fresh: for how many seconds a look is good, of a run on this machine.
        """
        run = self.shown.run
        is_remote = hasattr(run, "url")
        good = FRESH_REMOTE if is_remote else FRESH if fresh is None else fresh
        with self._lock:
            if time.monotonic() - self._looked < good:
                return
            key = signature(run.path)
            if key != self.key or is_remote:
                self._has_changed = run.refresh() or self._has_changed
                self.key = signature(run.path) if is_remote else key
            self._looked = time.monotonic()

    def take_change(self) -> bool:
        """Whether it has changed since this was last asked.

        A request may have seen the change first: it is told of all the same.
        """
        with self._lock:
            has_changed, self._has_changed = self._has_changed, False
            return has_changed


def signature(directory: Path) -> Hashable:
    """Stands for the content of a run's files, as far as the file system knows of changes."""
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
