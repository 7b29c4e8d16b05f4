"""What a run holds at one moment, and how that is brought up to date."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gradwatch.sites import Kind, Site
from gradwatch.store import tables
from gradwatch.store.journal import Journal
from gradwatch.store.reader import views
from gradwatch.store.reader.attempts import Attempt, Bounds, bounds
from gradwatch.store.reader.catalog import Catalog, Writer
from gradwatch.store.reader.database import Columns, Database
from gradwatch.store.reader.moments import MomentCache, Moments
from gradwatch.store.tables import SCHEMAS


class Snapshot:
    """A run's rows as of one look at its files.

    Attributes:
        database: where they can be asked for.
        segments: the sealed files of summaries.
        sites: in network order: the order in which the first rank met them.
        numbers: for each site its numbers at all writers, by which DuckDB finds its rows.
        groups: the sites of each group that the user has named.
        attempts: of all ranks, oldest first.
        bounds: from which step on which attempt's rows are superseded; `bounds_key`
            stands for them.
        site_of: the site of each number of each writer.
        ranks: the processes that have written.
    """

    def __init__(
        self,
        catalog: Catalog,
        database: Database,
        cache: MomentCache,
        segments: Sequence[Path],
        previous: Snapshot | None = None,
    ) -> None:
        self.database, self.segments = database, tuple(segments)
        self._cache = cache
        self._lock = threading.Lock()
        self._moments: Moments | None = None
        self._shared: dict[tuple[int, str], NDArray[np.int64]] = {}
        writers = list(catalog.writers.values())
        for writer in writers:
            if writer.without_manifest and not writer.sites:
                self._learn_sites(writer)
        for writer in writers:
            if writer.is_hurt:
                self._learn_attempts(writer)
        self.numbers: dict[Site, list[int]] = {}
        self.site_of: dict[str, list[Site | None]] = {}
        self.groups: dict[str, list[Site]] = {}
        # The first rank knows the network; others, which may be earlier, only what is their own.
        for writer in sorted(writers, key=lambda each: each.rank):
            self._meet(writer)
        sites = tuple(self.numbers)
        # The same one as before, if it is: what was derived from it need not be again.
        self.sites: tuple[Site, ...] = (
            previous.sites if previous is not None and previous.sites == sites else sites
        )
        self.ranks: tuple[int, ...] = tuple(sorted({writer.rank for writer in writers}))
        self.attempts: tuple[Attempt, ...] = tuple(
            Attempt(
                writer.name,
                about["attempt"],
                writer.rank,
                about["first_step"],
                about.get("group"),
                about.get("time") or np.nan,
            )
            for writer in writers
            for about in writer.attempts
        )
        self.bounds: Bounds = {}
        if len(self.attempts) > len(self.ranks):
            groups = {
                writer.name: sorted({entry[2] for entry in writer.sites if entry is not None})
                for writer in writers
            }
            self.bounds = bounds(self.attempts, self.moments.attempts(), groups)
        self.bounds_key = tuple(sorted(self.bounds.items()))
        self._tell_database(writers)

    @property
    def moments(self) -> Moments:
        """When what was recorded, all attempts included."""
        with self._lock:
            if self._moments is None:
                self._moments = self._cache.of(self.database, self.segments)
            return self._moments

    def shared_steps(self, rank: int, kind: str) -> NDArray[np.int64]:
        """The steps of a kind of which several files have rows that are not superseded."""
        known = self._shared.get((rank, kind))
        if known is None:
            known = self.moments.current(self.bounds).of(rank, kind).shared_steps
            self._shared[rank, kind] = known
        return known

    @property
    def has_parts(self) -> bool:
        """Whether any row is of a micro-batch."""
        return self.moments.has_parts

    def _meet(self, writer: Writer) -> None:
        met = [None if entry is None else _site(*entry) for entry in writer.sites]
        self.site_of[writer.name] = met
        for number, site in enumerate(met):
            if site is not None:
                numbers = self.numbers.setdefault(site, [])
                if number not in numbers:
                    numbers.append(number)
        for name, members in writer.groups.items():
            found = (met[number] for number in members if number < len(met))
            both = [*self.groups.get(name, ()), *(site for site in found if site is not None)]
            self.groups[name] = list(dict.fromkeys(both))

    def _learn_sites(self, writer: Writer) -> None:
        """The sites of a writer of which only rows are left."""
        paths = [s.path for number in writer.sealed for s in writer.sealed[number]]
        for path in paths:
            known = self.database.fetch(
                'SELECT DISTINCT site, kind, path, "group" '
                f"FROM {views.parquet([path.absolute()])} ORDER BY site"
            )
            writer.sites += [None] * (int(max(known["site"], default=-1)) + 1 - len(writer.sites))
            entries = zip(known["kind"], known["path"], known["group"], strict=True)
            for number, entry in zip(known["site"].tolist(), entries, strict=True):
                writer.sites[number] = entry

    def _learn_attempts(self, writer: Writer) -> None:
        """The attempts that only rows tell of any more: they began with their first row."""
        known = {about["attempt"] for about in writer.attempts}
        rows = self.moments.where(self.moments.columns["writer"] == writer.name).columns
        for number in np.unique(rows["attempt"]):
            if number not in known:
                own = rows["attempt"] == number
                about = {"attempt": int(number), "first_step": int(rows["step"][own].min())}
                writer.attempts.append({**about, "time": float(rows["first"][own].min())})
        writer.attempts.sort(key=lambda about: int(about["attempt"]))

    def _tell_database(self, writers: Sequence[Writer]) -> None:
        fill = self.database.fill
        with_journals = [writer for writer in writers if writer.journals]
        fill(
            "_paths",
            tuple((writer.name, len(writer.sites)) for writer in with_journals),
            (
                (writer.name, number, entry[1])
                for writer in with_journals
                for number, entry in enumerate(writer.sites)
                if entry is not None
            ),
        )
        fill("_bounds", self.bounds_key, ((*key, until) for key, until in self.bounds.items()))
        numbered = ((i, str(s.kind), s.path, s.layer) for i, s in enumerate(self.sites))
        fill("sites", self.sites, numbered)
        begun = ((a.rank, a.writer, a.number, a.first_step, a.group, a.time) for a in self.attempts)
        fill("attempts", tuple((a.writer, a.number) for a in self.attempts), begun)
        self.database.define(has_attempts=bool(self.bounds))


class Tail:
    """Which rows of the journals a database has been given."""

    def __init__(self) -> None:
        self._given: dict[Path, tuple[int, int]] = {}

    def is_part_of(self, catalog: Catalog) -> bool:
        """Whether all that was given is still to be read from journals."""
        return set(self._given) <= {journal.path for journal in catalog.journals()}

    def give(self, catalog: Catalog, database: Database) -> int:
        """Add what is new to the database; returns how many blocks that was."""
        blocks = 0
        for writer in catalog.writers.values():
            for journal in writer.journals.values():
                readings, pictures = self._given.get(journal.path, (0, 0))
                fresh = replace(
                    journal,
                    # Numbers mean the same in all journals of a writer.
                    sites=list(writer.sites),
                    readings=journal.readings[readings:],
                    pictures=journal.pictures[pictures:],
                )
                if fresh.readings or fresh.pictures:
                    _insert(writer, fresh, database)
                blocks += len(fresh.readings) + len(fresh.pictures)
                self._given[journal.path] = (len(journal.readings), len(journal.pictures))
        return blocks


def _insert(writer: Writer, journal: Journal, database: Database) -> None:
    known = [(i, *entry) for i, entry in enumerate(writer.sites) if entry is not None]
    names: Columns = {
        "site": np.array([entry[0] for entry in known], np.int32),
        "kind": np.array([entry[1] for entry in known], object),
        "group": np.array([entry[3] for entry in known], object),
    }
    for table in SCHEMAS:
        rows = tables.rows_of(journal, table)
        if rows:
            database.append(table, rows, names, writer.name, writer.rank)


@lru_cache(maxsize=1 << 17)
def _site(kind: str, path: str, group: str) -> Site | None:
    # A kind that only a later gradwatch knows can still be asked for in SQL.
    return Site(Kind(kind), path) if kind in _KINDS else None


_KINDS = frozenset(Kind)
