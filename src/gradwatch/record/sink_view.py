"""The readings that a run's sinks get."""

from gradwatch.core import Grouping, Reading
from gradwatch.parallel import Heartbeat


class SinkView:
    """The readings that sinks get for one that was measured.

    They have the members of the groups that sinks ask for.
    A process whose measurements the first writes for all has nothing but its `heartbeat`.
    """

    def __init__(
        self,
        grouping: Grouping,
        heartbeat: Heartbeat | None,
        is_first: bool,
    ) -> None:
        self._grouping = grouping
        self._heartbeat = heartbeat
        self._has_all = heartbeat is None or is_first

    def __call__(self, reading: Reading) -> list[Reading]:
        readings = [self._grouping.attach(reading)] if self._has_all else []
        if self._heartbeat is not None and (beat := self._heartbeat.beat(reading)) is not None:
            readings.append(beat)
        return readings
