"""What a run holds at one moment."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from gradwatch.core import KINDS, Kind, Site
from gradwatch.read import views
from gradwatch.read.attempts import Attempt, Bounds, BoundsKey, bounds
from gradwatch.read.catalog import Catalog
from gradwatch.read.database import Database
from gradwatch.read.moments import MomentCache, Moments
from gradwatch.read.steps import Steps
from gradwatch.read.writer_files import Writer
from gradwatch.store import SCHEMAS

_MOST_SITES = 1 << 22
"""More sites than any writer has."""


class Snapshot:
    """A run's rows as of one look at its files.

    `segments` are the sealed files of summaries. `sites` are in network order: the order in which
    the first rank met them. `numbers` has for each site the numbers that writers have given it, and
    `home` the first rank that has it. `attempts` are oldest first, and `bounds` says from which
    step on their rows are superseded.
    """

    def __init__(
        self,
        catalog: Catalog,
        database: Database,
        cache: MomentCache,
        previous: Snapshot | None = None,
    ) -> None:
        self.database = database
        self.segments = tuple(segment.path for segment in catalog.segments("summaries"))
        self._cache = cache
        self._lock = threading.Lock()
        self._moments: Moments | None = None
        self._shared: dict[tuple[frozenset[int], str], Steps] = {}
        writers = list(catalog.writers.values())
        for writer in writers:
            if writer.without_manifest and not writer.sites:
                self._learn_sites(writer)
        for writer in writers:
            if writer.is_incomplete:
                self._learn_attempts(writer)
        self.numbers: dict[Site, list[int]] = {}
        self._site_of: dict[int, dict[str, list[Site | None]]] = {}
        self._files: dict[tuple[int, str], list[Path]] = {}
        self.groups: dict[str, list[Site]] = {}
        self.home: dict[Site, int] = {}
        self._met: dict[int, list[Site | None]] = {}
        # The first rank knows the whole network; others may know only their own sites.
        for writer in sorted(writers, key=lambda each: each.rank):
            self._add_sites(writer)
        self._met.clear()
        for table in SCHEMAS:
            for segment in catalog.segments(table):
                key = catalog.writers[segment.writer].rank, table
                self._files.setdefault(key, []).append(segment.path)
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
        self.bounds_key: BoundsKey = tuple(sorted(self.bounds.items()))
        self._fill_database(writers)

    @property
    def moments(self) -> Moments:
        """All attempts included."""
        with self._lock:
            if self._moments is None:
                self._moments = self._cache.of(self.database, self.segments)
            return self._moments

    @property
    def current_moments(self) -> Moments:
        """Without what a later attempt has superseded."""
        return self.moments.current(self.bounds)

    def shared_steps(self, ranks: frozenset[int], kind: str) -> Steps:
        """The steps of a kind of which several files have rows that are not superseded."""
        known = self._shared.get((ranks, kind))
        if known is None:
            known = self.current_moments.of(ranks, kind).shared_steps
            self._shared[ranks, kind] = known
        return known

    def sites_of(self, ranks: Iterable[int]) -> dict[str, list[Site | None]]:
        """By writer of these ranks, the site of each of its numbers."""
        return {
            name: sites for rank in ranks for name, sites in self._site_of.get(rank, {}).items()
        }

    def recorded_by(self, kind: Kind | str) -> dict[Site, tuple[int, ...]]:
        found: dict[Site, set[int]] = {site: set() for site in self.sites if site.kind == kind}
        for rank in self.ranks:
            for sites in self.sites_of([rank]).values():
                for site in sites:
                    if site is not None and site.kind == kind:
                        found[site].add(rank)
        return {site: tuple(sorted(ranks)) for site, ranks in found.items()}

    def segments_of(self, ranks: Iterable[int], table: str = "summaries") -> list[Path]:
        return [path for rank in ranks for path in self._files.get((rank, table), ())]

    def all_rows(self, table: str, ranks: Collection[int], with_path: bool = False) -> str:
        """The rows of some ranks, all attempts included, in SQL.

        Only the sealed files of these ranks are opened: there may be a thousand ranks. The
        rows of journals are of all ranks: filter by `rank` too.
        """
        segments = [path.absolute() for path in self.segments_of(ranks, table)]
        return views.rows(table, segments, with_path)

    def current_rows(self, table: str, ranks: Collection[int]) -> str:
        """The rows of some ranks that no later attempt has superseded, with their path, in SQL."""
        chosen = ", ".join(map(str, sorted(ranks))) or "NULL"
        rows = views.with_superseded(f"({self.all_rows(table, ranks, True)})", bool(self.bounds))
        return f"(SELECT * FROM ({rows}) WHERE NOT superseded AND rank IN ({chosen}))"

    @property
    def has_micro_batches(self) -> bool:
        return self.moments.has_micro_batches

    def _add_sites(self, writer: Writer) -> None:
        rank, known = writer.rank, self._met.get(id(writer.sites))
        met = known or [None if entry is None else _site(*entry) for entry in writer.sites]
        self._site_of.setdefault(rank, {})[writer.name] = met
        if not known:
            # Else a thousand ranks that have the same sites are met one by one.
            self._met[id(writer.sites)] = met
            for number, site in enumerate(met):
                if site is not None:
                    numbers = self.numbers.setdefault(site, [])
                    if not numbers:
                        self.home[site] = rank
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
                f"FROM {views.parquet([path.absolute()])} "
                f"WHERE site BETWEEN 0 AND {_MOST_SITES} ORDER BY site"
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

    def _fill_database(self, writers: Sequence[Writer]) -> None:
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
        sites = self.sites
        self.database.fill_later(
            "sites",
            sites,
            lambda: ((i, str(s.kind), s.path, s.layer) for i, s in enumerate(sites)),
        )
        begun = ((a.rank, a.writer, a.number, a.first_step, a.group, a.time) for a in self.attempts)
        fill("attempts", tuple((a.writer, a.number) for a in self.attempts), begun)
        self.database.define_later(has_attempts=bool(self.bounds))


def _site(kind: str, path: str, group: str) -> Site | None:
    # A kind that is not in the table of this process can still be read in SQL.
    return _known_site(KINDS[kind], path) if kind in KINDS else None


@lru_cache(maxsize=1 << 17)
def _known_site(kind: Kind, path: str) -> Site:
    return Site(kind, path)
