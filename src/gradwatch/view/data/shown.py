"""A run as it is shown: which one of several, which of its processes, its trees."""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass
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
    checked,
    kind_of,
    within,
)
from gradwatch.view.data.tree import Tree

FIRST = "first"
"""How the choice of no rank in particular is spelled."""


class StaleTreeError(Exception):
    """Rows of a tree were asked for that is not the run's any more."""


@dataclass(frozen=True)
class Window:
    """Which columns are asked for; see `types.ts`.

    Attributes:
        columns: at most so many.
        stretch: only steps from the first to the last of these.
        since, width: only columns that end at or after that step, if columns are that wide.
    """

    columns: int = 500
    stretch: tuple[int, int] = EVER
    since: int | None = None
    width: int | None = None

    def bucketing(self, steps: Steps) -> Bucketing:
        """The columns of these steps."""
        return by_width(within(steps, self.stretch), self.columns)

    def changed(self, bucketing: Bucketing, last: Steps) -> slice:
        """Which of the columns, that end at these steps, are to be answered."""
        if self.since is None or self.width != bucketing.span:
            return slice(0, None)
        return slice(int(np.searchsorted(last, self.since)), None)

    def is_complete(self, bucketing: Bucketing) -> bool:
        """Whether that is all columns."""
        return self.since is None or self.width != bucketing.span


class Shown:
    """A run that is looked at.

    Args:
        run: what is read.
        id: what it is called in requests.
        name: what people call it; by default its own name.
        rank: whose numbers are shown, as in `Run`; if it has recorded nothing, the first's.

    Example:

    >>> import tempfile
    >>> import gradwatch, numpy as np
    >>> directory = tempfile.mkdtemp()
    >>> with gradwatch.Monitor(directory, every=1, sinks=[gradwatch.Store()]) as monitor:
    ...     monitor.record(gradients={"net/dense/kernel": np.array([3.0, 4.0])})
    >>> from gradwatch.view.data.shown import Shown
    >>> shown = Shown(gradwatch.open(directory), name="mine")
    >>> shown.tree("gradient").label
    ['net/dense/kernel']
    """

    def __init__(
        self, run: Run, id: str = "", name: str | None = None, rank: RankChoice = None
    ) -> None:
        self.run, self.id, self.name = run, id, run.name if name is None else name
        self._asked_rank = rank
        self._lock = threading.Lock()
        self._trees: dict[Kind, tuple[Any, tuple[Site, ...], Tree]] = {}

    @property
    def rank(self) -> RankChoice:
        """Whose numbers are shown."""
        asked = self._asked_rank
        return asked if asked == ALL or asked in self.run.ranks else None

    @property
    def one_rank(self) -> int:
        """The process to show where there can be only one."""
        return self.rank if isinstance(self.rank, int) else min(self.run.ranks, default=0)

    def of_rank(self, rank: RankChoice) -> Shown:
        """The same run with the numbers of others.

        Raises:
            NotRecordedError: there is no such rank.
        """
        other = copy.copy(self)
        other._asked_rank = checked(rank, self.run.ranks)
        return other

    def kind(self, name: str) -> Kind:
        """The kind of that name.

        Raises:
            NotRecordedError: nothing of it is recorded.
        """
        return kind_of(name, self.run.site_order)

    def tree(self, kind: str) -> Tree:
        """The rows that a kind can be shown in; the same one for as long as it is so.

        Raises:
            NotRecordedError: nothing of that kind is recorded.
        """
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
