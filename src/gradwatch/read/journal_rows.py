"""Adding the rows of journals, which are not sealed yet, to a database."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gradwatch.read.catalog import Catalog
from gradwatch.read.database import Columns, Database
from gradwatch.read.writer_files import Writer
from gradwatch.store import SCHEMAS, Journal, tables

_JOURNALS = 256
"""So many journals are added at once."""


class JournalRows:
    """Adds the rows of journals to a database, each row once."""

    def __init__(self) -> None:
        self._added: dict[Path, tuple[int, int]] = {}

    def are_in(self, catalog: Catalog) -> bool:
        """Whether all rows that were added are still to be read from journals."""
        return set(self._added) <= {journal.path for journal in catalog.journals()}

    def add(self, catalog: Catalog, database: Database) -> int:
        """Add what is new; returns how many records that was."""
        count = 0
        new: list[tuple[Writer, Journal]] = []
        for writer in catalog.writers.values():
            for journal in writer.journals.values():
                readings, pictures = self._added.get(journal.path, (0, 0))
                fresh = replace(
                    journal,
                    # Numbers mean the same in all journals of a writer.
                    sites=list(writer.sites),
                    readings=journal.readings[readings:],
                    pictures=journal.pictures[pictures:],
                )
                if fresh.readings or fresh.pictures:
                    new.append((writer, fresh))
                count += len(fresh.readings) + len(fresh.pictures)
                self._added[journal.path] = (len(journal.readings), len(journal.pictures))
        for start in range(0, len(new), _JOURNALS):
            _insert(new[start : start + _JOURNALS], database)
        return count


def _insert(new: Sequence[tuple[Writer, Journal]], database: Database) -> None:
    """Insert the rows of several journals at once: one by one, a thousand take long."""
    writers = {writer.name: writer for writer, _ in new}
    owner_of = {name: owner for owner, name in enumerate(writers)}
    known = [
        (owner_of[writer.name], writer.name, writer.rank, number, entry[0], entry[2])
        for writer in writers.values()
        for number, entry in enumerate(writer.sites)
        if entry is not None
    ]
    types = {"owner": np.int32, "writer": object, "rank": np.int32, "site": np.int32}
    names: Columns = {
        name: np.array([entry[i] for entry in known], types.get(name, object))
        for i, name in enumerate(("owner", "writer", "rank", "site", "kind", "group"))
    }
    for table in SCHEMAS:
        parts = [
            {**rows, "owner": np.full(rows["site"].size, owner_of[writer.name], np.int32)}
            for writer, journal in new
            if (rows := tables.rows_of(journal, table))
        ]
        if parts:
            stacked = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            database.append(table, stacked, names)
