"""What a process writes that measures nothing but what all of them do."""

from __future__ import annotations

import threading

import numpy as np

from gradwatch.core import Kind, Reading, Site, Summary

NAME, FIRST = "step_seconds", "processes"
MEANING = (
    f"{NAME}: the time of a step of this rank, on average since the last measured one, by the "
    f"clock of the host, which may run ahead of the devices; {FIRST}: how many train together, "
    "told at the first measured step"
)


class SignsOfLife:
    """One number for each measured step, by which is known how far a process has come.

    Of a training in which the processes measure whole arrays together, the first writes what they
    have measured, and each one this. So if one is killed, the run says which, and when. At the
    first step, of which is not known how long it took, it is the number of processes.

    Args:
        processes: how many there are.

    Example:

    >>> from gradwatch import Kind, Reading, Summary
    >>> from gradwatch.parallel.heartbeat import SignsOfLife
    >>> signs = SignsOfLife(processes=4)
    >>> first, second = (Reading(step, 1, 0.0, [], Summary.empty((0,))) for step in (10, 20))
    >>> signs.of(first, now=100.0).numbers(Kind.SCALAR)
    {'processes': 4.0}
    >>> signs.of(second, now=105.0).numbers(Kind.SCALAR)
    {'step_seconds': 0.5}
    >>> signs.of(second, now=105.0)  # Said already.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._last: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def of(self, reading: Reading, now: float) -> Reading | None:
        """The sign that a step has been run; None if there was one.

        Args:
            reading: what was measured of it, which is there when the step is done.
            now: when it was begun, by a clock that only goes forward.
        """
        if reading.micro_batch is not None:
            return None  # The step itself is yet to come.
        with self._lock:
            step, then = self._last.get(reading.group, (None, now))
            if step == reading.step:
                return None
            self._last[reading.group] = (reading.step, now)
        if step is None or reading.step < step:
            name, number = FIRST, float(self._processes)
        else:
            name, number = NAME, (now - then) / (reading.step - step)
        path = f"{reading.group}/{name}" if reading.group else name
        row = Summary.unpack(Summary.of(np.array([number])).pack()[None])
        sites = [Site(Kind.SCALAR, path)]
        return Reading(reading.step, reading.epoch, reading.time, sites, row, group=reading.group)
