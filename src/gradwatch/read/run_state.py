"""A run's files as of the last look at them: its status, its sites and its steps."""

import threading
from pathlib import Path
from typing import Any

import numpy as np

from gradwatch.core import KINDS, Kind, Site, SiteInfo, select
from gradwatch.read import run_json
from gradwatch.read.catalog import Catalog
from gradwatch.read.chosen_rows import RankChoice, check_rank, measured_steps
from gradwatch.read.database import Database
from gradwatch.read.journal_rows import JournalRows
from gradwatch.read.members import kind_of, members
from gradwatch.read.moments import MomentCache, Moments, RecordedEpoch
from gradwatch.read.snapshot import Snapshot
from gradwatch.read.status import RankStatus, Status, rank_statuses, status_of
from gradwatch.read.steps import Steps, Values
from gradwatch.store import SCHEMAS, Damage


class RunState:
    """The files of a run, as of its opening or the last `refresh`; see `Run`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._catalog = Catalog(self.path.absolute())
        self._lock = threading.Lock()
        self._moment_cache = MomentCache()
        self._database: Database | None = None
        self._journal_rows = JournalRows()
        self._readable: set[Path] = set()
        self._seen: Any = None
        self._snapshot: Snapshot
        self._infos: tuple[run_json.Facts, tuple[Site, ...], list[SiteInfo]] | None = None
        self._facts_file = run_json.FactsFile(self.path)
        self._facts, self._facts_damage = self._facts_file.read()
        self._refresh_rows()

    def refresh(self) -> bool:
        """Read what has been written since; returns whether anything has changed."""
        facts, damage = self._facts_file.read()
        # The same object as before, if it is: what was derived from it need not be again.
        same = facts is self._facts and damage == self._facts_damage
        self._facts, self._facts_damage = facts, damage
        changed = self._refresh_rows()
        return changed or not same

    def _refresh_rows(self) -> bool:
        with self._lock:
            catalog, database = self._catalog, self._database
            catalog.refresh()
            segments = self._segments()
            is_known = self._seen is not None and self._seen[0] == segments
            if database is None or not is_known or not self._journal_rows.are_in(catalog):
                # A database can read the files that it was made for: new ones need another.
                # The old one lives on for as long as a query of another thread needs it.
                database, self._journal_rows = Database(segments), JournalRows()
                if self._find_unreadable(database, segments):
                    database.close()
                    catalog.refresh()
                    segments = self._segments()
                    database = Database(segments)
            records = self._journal_rows.add(catalog, database)
            writers = catalog.writers.values()
            seen = (
                segments,
                [(w.name, len(w.sites), len(w.attempts), w.groups, w.end) for w in writers],
                list(catalog.damage),
            )
            if database is self._database and not records and seen == self._seen:
                return False
            previous = None if self._seen is None else self._snapshot
            self._snapshot = Snapshot(catalog, database, self._moment_cache, previous)
            self._database, self._seen = database, seen
            return True

    def _find_unreadable(self, database: Database, segments: dict[str, tuple[Path, ...]]) -> bool:
        """Whether there are segments that hold no rows, though their checksums are right."""
        before = len(self._catalog.unreadable)
        for table, paths in segments.items():
            fresh = [path for path in paths if path not in self._readable]
            self._catalog.unreadable |= database.unreadable(table, fresh)
            self._readable.update(fresh)
        return len(self._catalog.unreadable) > before

    def _segments(self) -> dict[str, tuple[Path, ...]]:
        return {t: tuple(s.path for s in self._catalog.segments(t)) for t in SCHEMAS}

    def close(self) -> None:
        """Free the memory; the files are not open between queries."""
        with self._lock:
            if self._database is not None:
                self._database.close()

    @property
    def catalog(self) -> Catalog:
        """The files of the run."""
        return self._catalog

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.path.absolute().name

    @property
    def facts(self) -> run_json.Facts:
        """What `run.json` says: versions, schedule, what was watched, cost."""
        return self._facts

    @property
    def meaning(self) -> dict[str, str]:
        """In words, what a measurement of each kind is."""
        return run_json.meaning(self._facts)

    @property
    def damage(self) -> list[Damage]:
        """What was written and cannot be read any more; empty if all is well."""
        own = [] if self._facts_damage is None else [self._facts_damage]
        return [*own, *self._catalog.damage]

    @property
    def lost_rows(self) -> int:
        """How many rows could not be written, for example because the disk was full."""
        return sum(writer.lost_rows for writer in self._catalog.writers.values())

    @property
    def status(self) -> Status:
        """`live`, `finished`, `crashed`, `damaged` or `empty`; see `Status`."""
        return status_of(self._catalog.writers.values(), self.damage)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The processes that have recorded it."""
        return self._snapshot.ranks

    @property
    def rank_statuses(self) -> list[RankStatus]:
        """The status of each process of a parallel training.

        Processes that `run.json` names and that have recorded nothing are included.
        """
        writers = self._catalog.writers.values()
        return rank_statuses(writers, self._moments, run_json.process_count(self._facts))

    @property
    def started(self) -> float | None:
        """When recording began, in seconds since 1970."""
        times = [w.facts.get("started") for w in self._catalog.writers.values()]
        known = [float(t) for t in times if isinstance(t, int | float)]
        return min(known, default=None)

    @property
    def duration(self) -> float:
        """Seconds from when recording began, before anything is compiled, to the last record."""
        moments = self._snapshot.moments.columns
        if not moments["last"].size:
            return 0.0
        first = float(moments["first"].min())
        # What was imported is older than the record of it.
        begun = first if self.started is None else min(first, self.started)
        return float(moments["last"].max()) - begun

    @property
    def rows(self) -> int:
        """How many summaries there are, those of superseded attempts included."""
        return self._snapshot.moments.rows

    @property
    def last_step(self) -> int | None:
        """The last step of which anything is recorded."""
        steps = self.steps()
        return int(steps[-1]) if steps.size else None

    def steps(self, kind: Kind | str | None = None, rank: RankChoice = None) -> Steps:
        """The recorded steps, ascending.

        Args:
            kind: only that kind.
            rank: only that process; otherwise any of them.
        """
        ranks = [rank] if isinstance(rank, int) else None
        return self._moments.of(ranks, None if kind is None else str(kind)).steps

    @property
    def measured_steps(self) -> Steps:
        """The steps at which tensors were measured, ascending.

        Losses and metrics are recorded at others, too. In a run that has no tensors, as one of
        another tool's numbers, these are all steps.
        """
        kinds = self._moments.columns["kind"]
        is_tensor = np.ones(kinds.size, bool)
        for kind in KINDS.values():
            if kind.owner in ("step", "training"):
                is_tensor &= kinds != str(kind)
        return (self._moments.where(is_tensor) if is_tensor.any() else self._moments).steps

    def times(self) -> tuple[Steps, Values]:
        """The recorded steps, ascending, and when each was recorded, in seconds since 1970."""
        columns = self._moments.columns
        steps, place = np.unique(columns["step"], return_inverse=True)
        times = np.full(steps.size, -np.inf)
        np.maximum.at(times, place, columns["last"])
        return steps.astype(np.int64), times

    def steps_shown(self, kind: Kind | str, rank: RankChoice = None) -> Steps:
        """The steps that a heatmap of a kind has, where `rank` is as in `Run`."""
        snapshot = self._snapshot
        chosen = kind_of(kind, snapshot.sites)
        return measured_steps(snapshot, chosen, self._choice(rank))

    @property
    def epochs(self) -> list[RecordedEpoch]:
        """The epochs in the order of steps, each with its first and its last recorded step."""
        return self._moments.epochs

    @property
    def infos(self) -> list[SiteInfo]:
        """The sites in network order with shape, dtype, ... as far as they are known."""
        facts, sites = self._facts, self._snapshot.sites
        known = self._infos
        if known is None or known[0] is not facts or known[1] is not sites:
            more = run_json.site_infos(facts)
            infos = [more.get(site) or run_json.bare_info(site) for site in sites]
            known = self._infos = (facts, sites, infos)
        return list(known[2])

    def sites(
        self, kind: Kind | str | None = None, pattern: select.Spec | None = None
    ) -> list[Site]:
        """The recorded sites, in network order.

        Args:
            kind: only that kind.
            pattern: only what it selects, as in `gradwatch.select`: `"conv*/kernel"`,
                `"!bias"`, a regular expression, a function of a `SiteInfo`. Without
                one, slices such as `kernel[forget]` are included.
        """
        if pattern is None:
            sites = self._snapshot.sites
            return [site for site in sites if kind is None or site.kind == kind]
        selector = select.as_selector(pattern)
        infos = (info for info in self.infos if kind is None or info.kind == kind)
        return [info.site for info in infos if selector.selects(info)]

    @property
    def site_order(self) -> tuple[Site, ...]:
        """All sites in network order; the same object for as long as there are no others."""
        return self._snapshot.sites

    def members(self, kind: Kind | str, path: str) -> list[Site]:
        """The sites that a path stands for, as in `series`: one, or those that are merged.

        Raises:
            NotRecordedError: there is none; the nearest are named.
        """
        snapshot = self._snapshot
        return members(kind_of(kind, snapshot.sites), path, snapshot.sites, snapshot.groups)

    def recorded_by(self, kind: Kind | str) -> dict[Site, tuple[int, ...]]:
        """By site of a kind, the ranks that have recorded it."""
        return self._snapshot.recorded_by(kind)

    @property
    def _moments(self) -> Moments:
        return self._snapshot.current_moments

    def _choice(self, rank: RankChoice) -> RankChoice:
        return check_rank(rank, self.ranks)
