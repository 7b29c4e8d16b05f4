"""A run's rows, brought up to date on demand; safe to use from several threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradwatch.read.catalog import Catalog
from gradwatch.read.database import Database
from gradwatch.read.moments import MomentCache
from gradwatch.read.snapshot import Snapshot, Tail
from gradwatch.store import SCHEMAS


class Content:
    """The rows of a run directory, as of the last `refresh`.

    Attributes:
        catalog: the files.
        snapshot: what they hold; take it once for what must fit together.
    """

    def __init__(self, directory: Path) -> None:
        self.catalog = Catalog(directory)
        self._lock = threading.Lock()
        self._moments = MomentCache()
        self._database: Database | None = None
        self._tail = Tail()
        self._seen: Any = None
        self.snapshot: Snapshot
        self.refresh()

    def refresh(self) -> bool:
        """Look at the files again; returns whether anything has changed."""
        with self._lock:
            self.catalog.refresh()
            segments = {t: tuple(s.path for s in self.catalog.segments(t)) for t in SCHEMAS}
            database = self._database
            known = None if self._seen is None else self._seen[0]
            if database is None or segments != known or not self._tail.is_part_of(self.catalog):
                # Which files may be read is locked, so new ones need another database.
                # The old one lives on for as long as a query of another thread needs it.
                database, self._tail = Database(segments), Tail()
            blocks = self._tail.give(self.catalog, database)
            writers = self.catalog.writers.values()
            seen = (
                segments,
                [(w.name, len(w.sites), len(w.attempts), w.groups, w.end) for w in writers],
                list(self.catalog.damage),
            )
            if database is self._database and not blocks and seen == self._seen:
                return False
            previous = self.snapshot if self._seen is not None else None
            self.snapshot = Snapshot(
                self.catalog, database, self._moments, segments["summaries"], previous
            )
            self._database, self._seen = database, seen
            return True

    @contextmanager
    def database_writing(self, file: Path) -> Iterator[Database]:
        """Another database of the same rows, which can also write this one file."""
        with self._lock:
            segments = {t: tuple(s.path for s in self.catalog.segments(t)) for t in SCHEMAS}
            database = Database(segments, output=file)
            Tail().give(self.catalog, database)
            Snapshot(self.catalog, database, self._moments, segments["summaries"])
        try:
            yield database
        finally:
            database.close()

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            if self._database is not None:
                self._database.close()
