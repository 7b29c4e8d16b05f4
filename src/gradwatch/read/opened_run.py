"""A run that is open: how it stands, and what it has numbers of."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, Site, SiteInfo, select
from gradwatch.read import rank_choice, rank_statuses
from gradwatch.read import run_json as facts
from gradwatch.read.content import Content
from gradwatch.read.database import Database
from gradwatch.read.epochs import Epoch, epochs_of
from gradwatch.read.members import kind_of, members
from gradwatch.read.moments import Moments
from gradwatch.read.rank_choice import RankChoice
from gradwatch.read.snapshot import Snapshot
from gradwatch.read.status import RankStatus, Status, status_of
from gradwatch.store import Damage

Steps = NDArray[np.int64]


class OpenedRun:
    """The files of a run, as of its opening or the last `refresh`; see `Run`.

    Args:
        path: the run's directory.

    Attributes:
        path: the run's directory.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._content = Content(self.path.absolute())
        self._infos: tuple[Mapping[str, Any], tuple[Site, ...], list[SiteInfo]] | None = None
        self._facts_file = facts.FactsFile(self.path)
        self._facts, self._facts_damage = self._facts_file.read()

    def refresh(self) -> bool:
        """Read what has been written since; returns whether anything has changed."""
        told, damage = self._facts_file.read()
        # The same object as before, if it is: what was derived from it need not be again.
        same = told is self._facts and damage == self._facts_damage
        self._facts, self._facts_damage = told, damage
        changed = self._content.refresh()
        return changed or not same

    def close(self) -> None:
        """Let go of what is held in memory; the files are not open in between."""
        self._content.close()

    def database_writing(self, file: Path) -> AbstractContextManager[Database]:
        """A database of this run's rows that can also write one file; see `export_table`."""
        return self._content.database_writing(file)

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.path.absolute().name

    @property
    def facts(self) -> Mapping[str, Any]:
        """What `run.json` says: versions, schedule, what was watched, cost."""
        return self._facts

    @property
    def meaning(self) -> dict[str, str]:
        """In words, what a measurement of each kind is."""
        return facts.meaning(self._facts)

    @property
    def damage(self) -> list[Damage]:
        """What was written and cannot be read any more; empty if all is well."""
        own = [] if self._facts_damage is None else [self._facts_damage]
        return [*own, *self._content.catalog.damage]

    @property
    def lost_rows(self) -> int:
        """How many rows could not be written at the time, for want of space, say."""
        return sum(writer.lost_rows for writer in self._content.catalog.writers.values())

    @property
    def status(self) -> Status:
        """`live`, `finished`, `crashed`, `damaged` or `empty`; see `Status`."""
        return status_of(self._content.catalog.writers.values(), self.damage)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The processes that have recorded it."""
        return self._snapshot.ranks

    @property
    def rank_statuses(self) -> list[RankStatus]:
        """How each process of a parallel training stands, and where it has stopped if it has.

        Also those that the training had, by `run.json`, and that have recorded nothing.
        """
        writers = self._content.catalog.writers.values()
        return rank_statuses.of(writers, self._moments, facts.process_count(self._facts))

    @property
    def started(self) -> float | None:
        """When recording began, in seconds since 1970."""
        times = [w.facts.get("started") for w in self._content.catalog.writers.values()]
        known = [float(t) for t in times if isinstance(t, int | float)]
        return min(known, default=None)

    @property
    def duration(self) -> float:
        """Seconds from the first to the last record."""
        moments = self._snapshot.moments.columns
        if not moments["last"].size:
            return 0.0
        return float(moments["last"].max() - moments["first"].min())

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
        """The steps of which anything, or something of that kind, is recorded; ascending.

        Args:
            kind: only that kind.
            rank: only that process; otherwise any of them.
        """
        ranks = [rank] if isinstance(rank, int) else None
        return self._moments.of(ranks, None if kind is None else str(kind)).steps

    def steps_shown(self, kind: Kind | str, rank: RankChoice = None) -> Steps:
        """The steps that a heatmap of a kind has, where `rank` is as in `Run`."""
        snapshot = self._snapshot
        return snapshot.steps(kind_of(kind, snapshot.sites), self._choice(rank))

    @property
    def epochs(self) -> list[Epoch]:
        """The epochs, with the first and the last step that are recorded of each."""
        return epochs_of(self._moments)

    @property
    def infos(self) -> list[SiteInfo]:
        """The sites in network order with shape, dtype, ... as far as they are known."""
        told, sites = self._facts, self._snapshot.sites
        known = self._infos
        if known is None or known[0] is not told or known[1] is not sites:
            more = facts.site_infos(told)
            infos = [more.get(site) or facts.bare_info(site) for site in sites]
            known = self._infos = (told, sites, infos)
        return list(known[2])

    def sites(
        self, kind: Kind | str | None = None, pattern: select.Spec | None = None
    ) -> list[Site]:
        """What is recorded, in network order.

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
    def _snapshot(self) -> Snapshot:
        return self._content.snapshot

    @property
    def _moments(self) -> Moments:
        return self._snapshot.moments.current(self._snapshot.bounds)

    def _choice(self, rank: RankChoice) -> RankChoice:
        return rank_choice.checked(rank, self.ranks)
