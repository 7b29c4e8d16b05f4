"""The readings that a run's sinks get."""

from gradwatch.core import Grouping, Reading, Site
from gradwatch.parallel import Heartbeat
from gradwatch.record.directory import RunDirectory


class SinkView:
    """The readings that sinks get for one that was measured.

    They have the members of the groups that sinks ask for.
    A process whose measurements the first writes for all has nothing but its `heartbeat`.
    Tensors that were not seen are named in `run.json`: the record has them with count 0, as it has
    gradients that do not exist.
    """

    def __init__(
        self,
        grouping: Grouping,
        heartbeat: Heartbeat | None,
        is_first: bool,
        run: RunDirectory | None,
    ) -> None:
        self._grouping = grouping
        self._heartbeat = heartbeat
        self._has_all = heartbeat is None or is_first
        self._run = run
        self._unseen: frozenset[Site] = frozenset()

    def __call__(self, reading: Reading) -> list[Reading]:
        if self._run is not None and not reading.unseen <= self._unseen:
            self._unseen |= reading.unseen
            sites = sorted(self._unseen)
            self._run.amend("unseen", [{"kind": str(s.kind), "path": s.path} for s in sites])
        readings = [self._grouping.attach(reading)] if self._has_all else []
        if self._heartbeat is not None and (beat := self._heartbeat.beat(reading)) is not None:
            readings.append(beat)
        return readings
