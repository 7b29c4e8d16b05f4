"""Merges the measurements that the ranks of a training have made of their shards.

Each rank has a thread for it. So whatever happens to one of them (its disk is full, its monitor
is closed, it dies), no thread that trains ever waits for another rank because of gradwatch.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gradwatch.capture.loop.agreed_steps import AgreedSteps, ScheduleAnnouncer, ScheduleUpdate
from gradwatch.core import CELLS, FIELDS, IDENTITY
from gradwatch.util import Reporter

Array = NDArray[np.float64]

SUMS = len(FIELDS) - 2
"""The fields of a packed row that add up; the last two are minimum and maximum."""
KEPT = 32
"""Measured steps that wait to be brought together, at most: for ranks that are not there yet."""
PATIENCE = 30.0
"""Seconds that a reading waits for all ranks before it is given up."""
_LOOK = 100_000


class RankLink(Protocol):
    """The connection of a rank to all others; used on one thread only."""

    index: int
    count: int

    def connect(self, is_over: Callable[[], bool], reporter: Reporter) -> str | None:
        """Wait for the others, as long as need be; why not, in words, if it cannot be."""

    def add(self, numbers: Array) -> Array:
        """The sums over all ranks."""

    def highest(self, numbers: Array) -> Array:
        """The maxima over all ranks."""


class ShardEntry:
    """The measurement of this rank; `wait` returns `rows`, and `cells` if any, from the device."""

    def __init__(self, wait: Callable[[], Mapping[str, Any]]) -> None:
        self.wait = wait
        self.is_done = threading.Event()
        self.merged: dict[str, Any] = {}

    def done(self, merged: dict[str, Any] | None) -> None:
        """It is brought together with those of all ranks; None: it could not be."""
        self.merged = merged or {}
        self.is_done.set()


class ShardMeeting:
    """Merges the measurements of all ranks, step by step, by two small all-reduces a step.

    All ranks take the steps in the same order, see `AgreedSteps`. One that has nothing to give for
    a step says so, and nothing is recorded of that step. One that closes says that it leaves, and
    all end.

    There are `rows` tensors, and `cells` of them have histograms. Only the first rank has an
    announcer.
    """

    def __init__(
        self,
        ranks: RankLink,
        steps: AgreedSteps,
        rows: int,
        cells: int,
        announcer: ScheduleAnnouncer | None,
        reporter: Reporter,
    ) -> None:
        self._ranks = ranks
        self._steps = steps
        self._shape = (rows, cells)
        self._announcer = announcer
        self._reporter = reporter
        self._entries: dict[int, ShardEntry] = {}
        self._change = threading.Condition()
        self._passed, self._epoch = 0, 1
        self._awaited = 0
        self._is_leaving = self._is_stuck = False
        self.is_over = False
        self._thread = threading.Thread(target=self._run, name="gradwatch-ranks", daemon=True)
        self._thread.start()

    # On the thread that trains.

    def put(self, step: int, entry: ShardEntry) -> None:
        """What was measured at a step, before it has passed."""
        with self._change:
            if len(self._entries) < KEPT and not self.is_over:
                self._entries[step] = entry
                return
        entry.done(None)

    def passed(self, step: int, epoch: int) -> None:
        """A step is past, measured or not."""
        self._passed, self._epoch = step, epoch
        if step >= self._awaited:  # Else nobody need be woken.
            with self._change:
                self._change.notify_all()

    def leave(self) -> None:
        """This rank records no more."""
        with self._change:
            self._is_leaving = True
            self._change.notify_all()

    # On the thread that fetches.

    def result(self, entry: ShardEntry) -> dict[str, Any]:
        """Of the whole tensors, `rows` and `cells`; empty if they could not be had."""
        # Once the others have been waited for in vain, not again for each step.
        if entry.is_done.wait(0.0 if self._is_stuck else PATIENCE):
            self._is_stuck = False
            return entry.merged
        self._is_stuck = True
        return {}

    # On its own thread.

    def _run(self) -> None:
        why: str | None
        try:
            why = self._ranks.connect(lambda: self._is_leaving, self._reporter)
            step = 0
            while why is None:
                step, is_there = self._next(step)
                why = self._meet(step, is_there) if step else ""
        except Exception as error:  # Whatever it is, training goes on.
            why = (
                "The ranks of this training have lost each other, so sharded parameters are not "
                f"recorded any more; training is not affected. {type(error).__name__}: {error}"
            )
        with self._change:
            self.is_over = True
            left, self._entries = self._entries, {}
        for entry in left.values():
            entry.done(None)
        if why and not self._is_leaving:
            self._reporter.notice(why)

    def _next(self, step: int) -> tuple[int, bool]:
        """The next measured step, and whether training has come there; it may have left before.

        All that could change which one it is has been heard: it comes with measured steps.
        Step 0 if there is none in sight.
        """
        ahead = range(step + 1, step + _LOOK)
        found = next((each for each in ahead if self._steps.is_measured(each)), 0)
        with self._change:
            self._awaited = found
            while found and self._passed < found and not self._is_leaving:
                self._change.wait()
            return found, self._passed >= found

    def _meet(self, step: int, is_there: bool) -> str | None:
        """Bring a step together; why it was the last one, in words, if it was."""
        entry, own = self._own(step)
        try:
            return self._merge(step, is_there, entry, own)
        finally:
            entry.is_done.set()

    def _merge(
        self, step: int, is_there: bool, entry: ShardEntry, own: dict[str, Any]
    ) -> str | None:
        count, with_cells = self._shape
        has_cells = self._steps.has_cells(step)
        bounds = [-own["rows"][:, SUMS], own["rows"][:, SUMS + 1]]
        sizes = [step, -step, has_cells, -float(has_cells)]
        highest = self._ranks.highest(np.concatenate([*bounds, sizes]))
        if not np.array_equal(highest[-4:], sizes):
            return (
                "The ranks of this training do not agree on which steps to measure, so sharded "
                "parameters are not recorded any more. A schedule must be a function of the step "
                "alone, and all ranks must begin to watch at the same step."
            )
        update = self._update()
        parts = [own["rows"][:, :SUMS].ravel(), [own["is_missing"], not is_there], update]
        if has_cells:
            parts.append(own["cells"].ravel())
        total = self._ranks.add(np.concatenate([np.asarray(p, np.float64) for p in parts]))
        sums, (missing, leaving), announced, cells = np.split(
            total, np.cumsum([count * SUMS, 2, len(update)])
        )
        self._steps.apply(ScheduleUpdate(*(int(number) for number in announced)))
        if not missing:
            low, high = -highest[:count], highest[count : 2 * count]
            rows = np.column_stack([sums.reshape(count, SUMS), low, high])
            several = cells.reshape(with_cells if has_cells else 0, CELLS).astype(np.int64)
            entry.done({"rows": rows, "cells": several})
        if leaving:
            return (
                f"{int(leaving)} of {self._ranks.count} ranks have closed their monitor, so "
                f"sharded parameters are not recorded any more, from step {step} on. Close it on "
                "all ranks when training ends."
            )
        return None

    def _own(self, step: int) -> tuple[ShardEntry, dict[str, Any]]:
        """What this rank has to give for a step."""
        with self._change:
            for early in [s for s in self._entries if s < step]:
                self._entries.pop(early).done(None)  # All others did not measure it.
            entry = self._entries.pop(step, None) or ShardEntry(_nothing)
        count, with_cells = self._shape
        nothing: dict[str, Any] = {
            "rows": np.tile(IDENTITY, (count, 1)),
            "cells": np.zeros((with_cells, CELLS)),
            "is_missing": True,
        }
        try:
            own = {name: np.asarray(x, np.float64) for name, x in entry.wait().items()}
            wanted = (with_cells, CELLS) if self._steps.has_cells(step) else (0, CELLS)
            if own["rows"].shape != (count, len(FIELDS)) or own["cells"].shape != wanted:
                return entry, nothing
            return entry, {**own, "is_missing": False}
        except Exception:
            return entry, nothing

    def _update(self) -> ScheduleUpdate:
        if self._announcer is None:
            return ScheduleUpdate()
        return self._announcer.update(self._passed, self._epoch)


def _nothing() -> Mapping[str, Any]:
    raise LookupError("This step was not measured here.")
