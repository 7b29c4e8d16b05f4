"""A per-rank heartbeat."""

import numpy as np

from gradwatch.core import Kind, Reading, Site, Summary

NAME, FIRST = "step_seconds", "processes"
MEANING = (
    f"{NAME}: the time of a step of this rank, on average since the last measured one, by the "
    f"clock of the host, which may run ahead of the devices; {FIRST}: how many train together, "
    "recorded at the first measured step"
)


class Heartbeat:
    """One number for each measured step, which shows how far a process has come.

    Where processes measure whole arrays together, the first writes the measurements, and each
    process writes its heartbeat. If one is killed, the run shows which, and when. The heartbeat of
    the first step, whose duration is not known, is the number of processes.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._last: dict[str, tuple[int, float]] = {}

    def beat(self, reading: Reading) -> Reading | None:
        """The heartbeat of a step that has been measured; None if the step has had one."""
        if reading.micro_batch is not None:
            return None  # The step itself is yet to come.
        if reading.sites and all(site.kind.is_number for site in reading.sites):
            return None  # Nothing was measured.
        step, then = self._last.get(reading.group, (None, 0.0))
        if step == reading.step:
            return None
        self._last[reading.group] = (reading.step, reading.time)
        if step is None or reading.step < step:
            name, number = FIRST, float(self._processes)
        else:
            # The clock may have been set back.
            name, number = NAME, max(0.0, reading.time - then) / (reading.step - step)
        path = f"{reading.group}/{name}" if reading.group else name
        row = Summary.unpack(Summary.of(np.array([number])).pack()[None])
        sites = [Site(Kind.SCALAR, path)]
        return Reading(reading.step, reading.epoch, reading.time, sites, row, group=reading.group)
