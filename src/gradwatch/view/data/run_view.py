"""A run as the viewer shows it: its id, its name, the chosen rank, its trees."""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradwatch.core import Kind, Site
from gradwatch.read import (
    ALL,
    EVER,
    Bucketing,
    RankChoice,
    Run,
    Steps,
    by_width,
    check_rank,
    kind_of,
    within,
)
from gradwatch.view.data.tree import Tree

FIRST = "first"
"""The choice of no rank in particular, in requests."""


class StaleTreeError(Exception):
    """The requested nodes belong to an earlier revision of the tree."""


@dataclass(frozen=True)
class Window:
    """Which columns to return, see `types.ts`; `stretch` is the first and the last step.

    With `since` and `width`, only columns that end at `since` or later are returned, if columns
    still have that width.
    """

    columns: int = 500
    stretch: tuple[int, int] = EVER
    since: int | None = None
    width: int | None = None

    def around(self, steps: Steps) -> Window:
        """With the steps next to its ends: a value is shown until the next one, and a line
        leads to it."""
        first, last = self.stretch
        before, after = steps[steps <= first][-1:], steps[steps >= last][:1]
        reach = (int(before[0]) if before.size else first, int(after[0]) if after.size else last)
        return replace(self, stretch=reach)

    def bucketing(self, steps: Steps) -> Bucketing:
        """The columns of these steps."""
        return by_width(within(steps, self.stretch), self.columns)

    def is_complete(self, bucketing: Bucketing) -> bool:
        """Whether all columns are returned."""
        return self.since is None or self.width != bucketing.span

    def changed(self, bucketing: Bucketing, last: Steps) -> slice:
        """The columns to return, of those that end at these steps."""
        if self.since is None or self.is_complete(bucketing):
            return slice(0, None)
        return slice(int(np.searchsorted(last, self.since)), None)


class RunView:
    """A run as the viewer shows it; `id` is the run's in requests.

    The rank is the first if the given one has recorded nothing.
    """

    def __init__(
        self, run: Run, id: str = "", name: str | None = None, rank: RankChoice = None
    ) -> None:
        self.run, self.id, self.name = run, id, run.name if name is None else name
        self._requested_rank = rank
        self._lock = threading.Lock()
        self._trees: dict[Kind, tuple[Any, tuple[Site, ...], Tree]] = {}

    @property
    def rank(self) -> RankChoice:
        rank = self._requested_rank
        return rank if rank == ALL or rank in self.run.ranks else None

    @property
    def one_rank(self) -> int:
        """The rank to show where only one can be shown."""
        return self.rank if isinstance(self.rank, int) else min(self.run.ranks, default=0)

    def with_rank(self, rank: RankChoice) -> RunView:
        """The same run with another rank's numbers; NotRecordedError if there are none."""
        other = copy.copy(self)
        other._requested_rank = check_rank(rank, self.run.ranks)
        return other

    def kind(self, name: str) -> Kind:
        """The kind of that name; NotRecordedError if nothing of it is recorded."""
        return kind_of(name, self.run.site_order)

    def tree(self, kind: str) -> Tree:
        """The tree of a kind; the same object until the sites change."""
        chosen = self.kind(kind)
        told, order = self.run.facts, self.run.site_order
        with self._lock:
            kept = self._trees.get(chosen)
            if kept is None or kept[0] is not told or kept[1] is not order:
                infos = [info for info in self.run.infos if info.kind is chosen]
                kept = self._trees[chosen] = (told, order, Tree.of(infos))
            return kept[2]

    def steps(self, kind: Kind) -> Steps:
        """The steps at which something of a kind was measured."""
        return self.run.steps_shown(kind, self.rank)
