"""Makes all JAX processes agree on which steps to measure.

In JAX all processes run one program, and meet in its collectives. A measured step is another
program: if only some processes ran it, all would wait forever. So they agree first, once, on the
host, through the key-value store of `jax.distributed`. Each process writes what its monitor will
measure, and when; the first process decides. If a process has no monitor, or another one, nothing
is measured anywhere; training goes on.

The decision is written once and never changed, so that all processes read the same.
"""

import itertools
import re
import sys
import time
from collections.abc import Sequence
from typing import Protocol

from gradwatch.core import Schedule
from gradwatch.parallel.ranks import Rank, current
from gradwatch.watches import Timetable
from gradwatch.watches.budget import Pacer, is_in_floor

EVERY = 100
"""A budget measures every so many steps: below 1 % even if measuring takes as long as training."""
PATIENCE = 30.0
"""Seconds that the first process waits for the others, for which the first step waits anyway."""
_YES = "yes"
_numbers = itertools.count(1)


class KeyValueStore(Protocol):
    """Shared by all processes of a training."""

    def write_once(self, key: str, value: str) -> None:
        """Write a value unless there is one already."""

    def read(self, key: str, seconds: float) -> str | None:
        """Wait for a value; None if there is none in that time."""


def refusal(timetable: Timetable, pacer: Pacer) -> str | None:
    """The reason why nothing may be measured here; None if measuring is allowed.

    Every process asks, as often as every other. It waits for the others where JAX trains in several
    processes, and nowhere else.

    Where it waits, a budget measures every 100th step and the floor, whatever they cost: each
    process measures its own cost, and they would come to different steps.
    """
    rank = current()
    if rank.engine != "jax":
        return None
    pacer.follow(lambda step: step % EVERY == 0 or is_in_floor(step))
    wishes = [*map(str, timetable.watches), str(timetable.every)]
    schedules = [timetable.every, *(s for w in timetable.watches for s in (w.every, w.histogram))]
    functions = [
        schedule.name
        for schedule in schedules
        if isinstance(schedule, Schedule)
        and schedule is not pacer.schedule
        and not schedule.is_fixed
    ]
    name = f"gradwatch/{next(_numbers)}"
    return agree(rank, _JaxKeyValueStore(), name, wishes, PATIENCE, list(dict.fromkeys(functions)))


def agree(
    rank: Rank,
    store: KeyValueStore,
    name: str,
    wishes: Sequence[str],
    patience: float,
    functions: Sequence[str] = (),
) -> str | None:
    """The reason why nothing may be measured, agreed through a store; None if there is none.

    `name` is the key of this agreement, the same for all. `wishes` say what is to be measured, and
    when, in words; `functions` are the names of schedules that are functions of the user's. The
    first process waits `patience` seconds for the others; these wait twice as long for what it
    decides.
    """
    # Addresses differ from process to process.
    said = re.sub(r" at 0x[0-9a-f]+", "", "; ".join(wishes))
    verdict = f"{name}/verdict"
    store.write_once(f"{name}/{rank.index}", said)
    if rank.is_first:
        mine = _decided(rank, store, name, said, patience)
        store.write_once(verdict, _unsure(functions) if functions and mine == _YES else mine)
    # Longer than the first waits for the others: it is not missing while it may wait for one.
    elif store.read(verdict, 2 * patience) is None:
        store.write_once(verdict, _absent(0, rank.count))
    decided = store.read(verdict, patience)
    if decided == _YES:
        return None
    return decided or "What the processes of this training agreed on cannot be read."


def _decided(rank: Rank, store: KeyValueStore, name: str, said: str, patience: float) -> str:
    until = time.monotonic() + patience
    for other in range(1, rank.count):
        theirs = store.read(f"{name}/{other}", max(0.001, until - time.monotonic()))
        if theirs is None:
            return _absent(other, rank.count)
        if theirs != said:
            return (
                f"Nothing is recorded: process {other} of {rank.count} has a monitor that measures "
                f"other things, or at other times, than that of process 0. One: {theirs}. The "
                f"other: {said}. Give all the same one."
            )
    return _YES


def _unsure(functions: Sequence[str]) -> str:
    return (
        f"Nothing is recorded: {', '.join(functions)} is a function of your own, which may "
        "choose other steps in other processes. JAX runs one program in all of them, and a step "
        "that only some measured would never end. Give a number of steps, a list of them, or one "
        "of gradwatch.schedule."
    )


def _absent(other: int, count: int) -> str:
    return (
        f"Nothing is recorded: process {other} of {count} has no monitor, or was too late. JAX "
        "runs one program in all processes, so give each of them the same monitor."
    )


class _JaxKeyValueStore:
    def __init__(self) -> None:
        self._client = sys.modules["jax._src.distributed"].global_state.client

    def write_once(self, key: str, value: str) -> None:
        try:
            self._client.key_value_set(key, value, allow_overwrite=False)
        except Exception as error:
            if "ALREADY_EXISTS" not in str(error):
                raise

    def read(self, key: str, seconds: float) -> str | None:
        try:
            found: str = self._client.blocking_key_value_get(key, max(1, int(seconds * 1000)))
        except Exception as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
            return None
        return found
