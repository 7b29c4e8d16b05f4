"""Which attempt a reading belongs to: a new one begins when training goes back."""

import time
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Reading
from gradwatch.util import Json

Numbers = NDArray[np.int64]
LastSites: TypeAlias = dict[tuple[str, int | None], tuple[int, list[Numbers]]]
Saved: TypeAlias = tuple[LastSites, int, int]


class AttemptLog:
    """The attempts of one writer, numbered from 1.

    One begins with the writer. Another begins when a group's steps go back, or a
    step comes again with a site that was written at it: training was resumed from
    a checkpoint, and what was measured from there on is measured anew.

    `entries` has the facts of each, as README.md names them. `last_step` is the highest step
    written, and 0 before the first.
    """

    def __init__(self, first_step: int) -> None:
        self.entries: list[dict[str, Json]] = []
        self.last_step = 0
        self._current: dict[str | None, int] = {}
        self._seen: LastSites = {}
        self._begin(first_step, None)

    def reopen(self, first_step: int) -> None:
        """The writer begins again; an attempt if that is before what was written."""
        if first_step <= self.last_step:
            self._begin(first_step, None)

    def attempt_of(self, reading: Reading, sites: Numbers) -> int:
        if reading.is_report or reading.is_late:
            # It may have come late, or be logged by the epoch: training has not gone back.
            return self._current.get(reading.group, self._current[None])
        step, seen = self._seen.get((reading.group, reading.micro_batch), (0, []))
        comes_again = reading.step == step and any(np.isin(sites, s).any() for s in seen)
        if reading.step < step or comes_again:
            self._begin(int(reading.step), reading.group)
        return self._current.get(reading.group, self._current[None])

    def add(self, reading: Reading, sites: Numbers) -> None:
        """The reading is in the journal."""
        if reading.is_report or reading.is_late:
            self.last_step = max(self.last_step, int(reading.step))
            return
        step, seen = self._seen.get((reading.group, reading.micro_batch), (0, []))
        kept = [*seen, sites] if step == reading.step else [sites]
        self._seen[reading.group, reading.micro_batch] = (int(reading.step), kept)
        self.last_step = max(self.last_step, int(reading.step))

    def save(self) -> Saved:
        """The state to `restore` if what is added from now on cannot be written."""
        return dict(self._seen), self.last_step, len(self.entries)

    def restore(self, saved: Saved) -> None:
        """Forget what was added since `save`; that training went back stays true."""
        seen, self.last_step, count = saved
        begun = {entry["group"] for entry in self.entries[count:]}
        self._seen = {key: what for key, what in seen.items() if key[0] not in begun}

    def _begin(self, first_step: int, group: str | None) -> None:
        number = len(self.entries) + 1
        self.entries.append(
            {"attempt": number, "first_step": first_step, "group": group, "time": time.time()}
        )
        # All its micro-batches begin again: the next of them is not another attempt.
        kept = {} if group is None else self._seen
        self._seen = {key: seen for key, seen in kept.items() if key[0] != group}
        if group is None:
            self._current.clear()
        self._current[group] = number
