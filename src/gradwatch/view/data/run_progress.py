"""The progress of a run: its newest numbers, kept up to date by reading only new rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradwatch.core import Site, select
from gradwatch.diagnosis import Finding
from gradwatch.read import Run, Status, by_width
from gradwatch.view.data import site_queries
from gradwatch.view.data.health import Health, health
from gradwatch.view.data.layer_data import is_of_network, layer_rows
from gradwatch.view.data.plain import Answer
from gradwatch.view.data.site_queries import LastMeasurement
from gradwatch.view.data.trend_data import trends
from gradwatch.view.text import has_stopped, ranks_in_words
from gradwatch.watches.budget import cost

RECENT = 20
"""The number of measured steps over which the pace is taken."""


@dataclass(frozen=True, eq=False)
class RunProgress:
    """A run at a moment.

    Attributes:
        step, epoch: the last recorded ones; None before the first.
        steps_per_second: over the last measured steps; None if unknown.
        last_time: the time of the last step in seconds since 1970; None before the first.
        duration: seconds from the beginning to the last record.
        numbers: losses and the like: `kind`, `path`, `value`, and the `trend` over time.
        layers: see `layer_rows`; `all_layers` counts them without the selection.
        cost: what measuring costs, in words; empty if unknown.
        damage: how many places cannot be read.
        lost_rows: how many rows were never written.
        ranks: the state of the processes in words; empty for a single one.
        is_rank_stopped: whether one of several processes crashed or is missing.
        is_crashed: whether a process ended without ending its record.
    """

    name: str
    status: Status
    step: int | None
    epoch: int | None
    measured_steps: int
    steps_per_second: float | None
    last_time: float | None
    duration: float
    numbers: list[Answer]
    layers: list[Answer]
    all_layers: int
    cost: str
    damage: int
    lost_rows: int
    ranks: str = ""
    is_rank_stopped: bool = False
    is_crashed: bool = False

    def health(self, findings: Sequence[Finding] | None) -> Health:
        """The health of the run with these findings; None before they are known."""
        return health(self.status, self.is_crashed, self.damage, findings)


class ProgressReader:
    """Reads the progress of a run as often as it is asked; the caller refreshes the run.

    Old rows are not read again: the last measurements are queried from the last known step
    on, and the reader caches what sealed files contribute to a trend. A `rank` of None is the
    first; `columns` is the most values of a trend.
    """

    def __init__(self, run: Run, rank: int | None = None, columns: int = 24) -> None:
        self.run = run
        self.columns = columns
        self._rank = rank
        self._last: dict[Site, LastMeasurement] = {}
        self._attempts = 0

    def read(self, selector: select.Selector | None = None) -> RunProgress:
        """The progress so far; layers are made of the selected sites only."""
        run = self.run
        rank = min(run.ranks, default=0) if self._rank is None else self._rank
        self._update(rank)
        sites = [site for site in run.sites(None, selector) if site in self._last]
        nonfinite = self._nonfinite(sites, rank)
        steps = run.steps(rank=rank)
        rate, last_time = (None, None)
        if steps.size:
            rate, last_time = site_queries.pace(run, rank, int(steps[-RECENT:][0]))
        ranks = run.rank_statuses if len(run.rank_statuses) > 1 else []
        return RunProgress(
            name=run.name,
            status=run.status,
            step=int(steps[-1]) if steps.size else None,
            epoch=max((e.number for e in run.epochs if e.number > 0), default=None),
            measured_steps=int(run.measured_steps.size),
            steps_per_second=rate,
            last_time=last_time,
            duration=run.duration,
            numbers=self._numbers(rank),
            layers=layer_rows(run, sites, self._last, nonfinite, self.columns, rank),
            all_layers=len({s.layer for s in self._last if is_of_network(s)}),
            cost=cost.in_words(run.facts.get("cost")),
            damage=len(run.damage),
            lost_rows=run.lost_rows,
            ranks=ranks_in_words(ranks) if ranks else "",
            is_rank_stopped=any(map(has_stopped, ranks)),
            is_crashed=any(rank.status is Status.CRASHED for rank in run.rank_statuses),
        )

    def _update(self, rank: int) -> None:
        # A resumed training takes back known steps, so everything is queried again.
        attempts = int(self.run.sql("SELECT count(*) FROM attempts").fetchall()[0][0])
        known = max((each.step for each in self._last.values()), default=None)
        if attempts != self._attempts or known is None:
            self._last, self._attempts = self._all_last(rank), attempts
            return
        # From the last step itself on: more of it may have been written since.
        found = site_queries.last_measurements(self.run, rank, known)
        merged = {**self._last, **found}
        self._last = {site: merged[site] for site in self.run.sites() if site in merged}

    def _all_last(self, rank: int) -> dict[Site, LastMeasurement]:
        # Most runs measure all sites every time; then the last few steps have all of them.
        steps = self.run.steps(rank=rank)
        if steps.size > RECENT:
            found = site_queries.last_measurements(self.run, rank, int(steps[-RECENT]))
            if len(found) == len(self.run.sites()):
                return found
        return site_queries.last_measurements(self.run, rank)

    def _numbers(self, rank: int) -> list[Answer]:
        entries = []
        sites = [site for site in self._last if site.kind.is_charted]
        for kind in dict.fromkeys(site.kind for site in sites):
            own = [site for site in sites if site.kind is kind]
            over_time = trends(self.run, own, "value", self.columns, rank)
            entries += [
                {
                    "kind": str(kind),
                    "path": site.path,
                    "value": self._last[site].value,
                    "trend": over_time[site],
                }
                for site in own
            ]
        return entries

    def _nonfinite(self, sites: Sequence[Site], rank: int) -> dict[Site, int]:
        """The number of NaN and infinite elements of each site, over the whole run."""
        counts: dict[Site, int] = {}
        for kind in dict.fromkeys(site.kind for site in sites if is_of_network(site)):
            own = [site for site in sites if site.kind is kind]
            steps = self.run.steps(kind, rank)
            found = self.run.merged(own, "nan", by_width(steps, self.columns), rank=rank)
            totals = np.asarray(found.nonfinite).sum(axis=1).tolist()
            counts |= {site: int(n) for site, n in zip(found.sites, totals, strict=True)}
        return counts
