"""How a run stands: its newest numbers, kept up to date by reading only what is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwatch.core import Site, select
from gradwatch.read import Run, Status, by_width
from gradwatch.view.glance import queries
from gradwatch.view.glance.layer_rows import is_of_network, layers_of
from gradwatch.view.glance.rank_words import has_stopped, ranks_in_words
from gradwatch.view.glance.trends import trends_of
from gradwatch.watches.budget import cost

RECENT = 20
"""Over how many measured steps the pace is taken."""


@dataclass(frozen=True, eq=False)
class Standing:
    """A run as it stood at a moment.

    Attributes:
        name: of its directory.
        status: see `Status`.
        step, epoch: the last that is recorded; None if nothing, or no epoch, is.
        measured_steps: how many were measured.
        steps_per_second: of the last measured steps; None if not known.
        last_time: when the last step was, in seconds since 1970; None if nothing is recorded.
        duration: seconds from the first to the last record.
        numbers: the losses and the like: `kind`, `path`, `value`, and its `trend` over time.
        layers: see `layers_of`.
        all_layers: how many there are without the selection.
        cost: what measuring costs, in words; empty if not known.
        damage, lost_rows: how many things cannot be read, and were never written.
        ranks: how the processes stand, in words; empty if there is one.
        is_rank_stopped: whether one of them crashed or is missing.
    """

    name: str
    status: Status
    step: int | None
    epoch: int | None
    measured_steps: int
    steps_per_second: float | None
    last_time: float | None
    duration: float
    numbers: list[dict[str, Any]]
    layers: list[dict[str, Any]]
    all_layers: int
    cost: str
    damage: int
    lost_rows: int
    ranks: str = ""
    is_rank_stopped: bool = False


class Watcher:
    """Tells how a run stands, as often as it is asked.

    Rows that have been read are not read again: the last measurements are asked for from
    the last known step on, and what sealed files add to a trend is kept by the reader.

    Args:
        run: by `gradwatch.open`; whoever asks calls its `refresh`.
        rank: the process of a parallel training; None for the first.
        columns: how many values a trend has at most.

    Example:

    >>> import tempfile
    >>> import gradwatch, numpy as np
    >>> from gradwatch.view.glance.standing import Watcher
    >>> directory = tempfile.mkdtemp()
    >>> with gradwatch.Monitor(directory, every=1, sinks=[gradwatch.Store()]) as monitor:
    ...     monitor.record(gradients={"dense/kernel": np.array([3.0, 4.0])}, loss=0.5)
    >>> standing = Watcher(gradwatch.open(directory)).look()
    >>> standing.step, standing.numbers[0]["value"], standing.layers[0]["gradient_l2"]
    (1, 0.5, 5.0)
    """

    def __init__(self, run: Run, rank: int | None = None, columns: int = 24) -> None:
        self.run = run
        self.columns = columns
        self._rank = rank
        self._newest: dict[Site, queries.Newest] = {}
        self._attempts = 0

    def look(self, selector: select.Selector | None = None) -> Standing:
        """How the run stands; of the layers, those of the sites that are selected."""
        run = self.run
        rank = min(run.ranks, default=0) if self._rank is None else self._rank
        self._learn(rank)
        sites = [site for site in run.sites(None, selector) if site in self._newest]
        steps = run.steps(rank=rank)
        rate, last_time = (None, None)
        if steps.size:
            rate, last_time = queries.pace(run, rank, int(steps[-RECENT:][0]))
        numbers = [site for site in self._newest if site.kind.is_number]
        states = run.rank_statuses
        return Standing(
            name=run.name,
            status=run.status,
            step=int(steps[-1]) if steps.size else None,
            epoch=max((e.number for e in run.epochs if e.number > 0), default=None),
            measured_steps=int(steps.size),
            steps_per_second=rate,
            last_time=last_time,
            duration=run.duration,
            numbers=self._numbers(numbers, rank),
            layers=layers_of(
                run, sites, self._newest, self._nonfinite(sites, rank), self.columns, rank
            ),
            all_layers=len({s.layer for s in self._newest if is_of_network(s)}),
            cost=cost.in_words(run.facts.get("cost")),
            damage=len(run.damage),
            lost_rows=run.lost_rows,
            ranks=ranks_in_words(states) if len(states) > 1 else "",
            is_rank_stopped=len(states) > 1 and any(map(has_stopped, states)),
        )

    def _learn(self, rank: int) -> None:
        # A resumed training takes steps back that were known, so all is asked for again.
        attempts = int(self.run.sql("SELECT count(*) FROM attempts").fetchall()[0][0])
        known = max((each.step for each in self._newest.values()), default=None)
        if attempts != self._attempts or known is None:
            self._newest, self._attempts = self._last_of_all(rank), attempts
            return
        # From the last step itself on: more of it may have been written since.
        found = queries.newest(self.run, rank, known)
        merged = {**self._newest, **found}
        self._newest = {site: merged[site] for site in self.run.sites() if site in merged}

    def _last_of_all(self, rank: int) -> dict[Site, queries.Newest]:
        # Most runs measure all sites every time, and then their end tells all.
        steps = self.run.steps(rank=rank)
        if steps.size > RECENT:
            found = queries.newest(self.run, rank, int(steps[-RECENT]))
            if len(found) == len(self.run.sites()):
                return found
        return queries.newest(self.run, rank)

    def _numbers(self, sites: Sequence[Site], rank: int) -> list[dict[str, Any]]:
        entries = []
        for kind in dict.fromkeys(site.kind for site in sites):
            own = [site for site in sites if site.kind is kind]
            trends = trends_of(self.run, own, "value", self.columns, rank)
            entries += [
                {
                    "kind": str(kind),
                    "path": site.path,
                    "value": self._newest[site].value,
                    "trend": trends[site],
                }
                for site in own
            ]
        return entries

    def _nonfinite(self, sites: Sequence[Site], rank: int) -> dict[Site, int]:
        """Of each site, how many elements were not finite in the whole run."""
        counts: dict[Site, int] = {}
        for kind in dict.fromkeys(site.kind for site in sites if is_of_network(site)):
            own = [site for site in sites if site.kind is kind]
            steps = self.run.steps(kind, rank)
            found = self.run.merged(own, "nan", by_width(steps, self.columns), rank=rank)
            totals = np.asarray(found.nonfinite).sum(axis=1).tolist()
            counts |= {site: int(n) for site, n in zip(found.sites, totals, strict=True)}
        return counts
