"""Records a sharded torch module: the measurements of all ranks, merged by the first."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gradwatch.capture.loop.agreed_steps import AgreedSteps, ScheduleAnnouncer
from gradwatch.capture.loop.loop_capture import LoopCapture
from gradwatch.capture.loop.shard_meeting import ShardEntry, ShardMeeting
from gradwatch.capture.site_table import SiteTable
from gradwatch.capture.torch.torch_parallel import Shards
from gradwatch.capture.torch.torch_ranks import TorchRanks
from gradwatch.core import Moment, Tensor
from gradwatch.measure import framework


class ShardRecorder:
    """Decides which steps are measured and which shards count, and records the merged result."""

    def __init__(self, loop: LoopCapture, group: str, table: SiteTable) -> None:
        self.shards = Shards(loop.reporter)
        self.steps = AgreedSteps(loop.timetable)
        self._loop = loop
        loop.follow(self.steps.is_paced)
        if table.plan.with_values:
            loop.reporter.notice(
                "Pictures and spectral norms of sharded parameters are not recorded: they would "
                "need the whole parameter in one place."
            )
        self._sites = [site for _, site in table.rows]
        when = [*map(str, loop.timetable.watches), str(loop.timetable.every)]
        ranks = TorchRanks(group, _fingerprint(table, when))
        self._is_first = ranks.index == 0
        announcer = (
            ScheduleAnnouncer(loop.pace, self.steps.goes_by_epoch) if self._is_first else None
        )
        self._meeting = ShardMeeting(
            ranks,
            self.steps,
            len(table.rows),
            len(table.with_cells),
            announcer,
            loop.reporter,
        )

    @property
    def is_over(self) -> bool:
        return self._meeting.is_over

    def send(self, moment: Moment, table: SiteTable, arrays: Mapping[str, Tensor]) -> None:
        """Have `rows` and `cells` of this rank's shards merged, and recorded by the first rank."""
        if [site for _, site in table.rows] != self._sites:
            self._loop.reporter.notice(
                "What can be trained has changed since watch() was called: nothing more is "
                "recorded of sharded parameters. Close the monitor and watch again, on all ranks."
            )
            return
        entry = ShardEntry(framework("torch").fetch(arrays, ["rows", "cells"]))
        self._meeting.put(moment.step, entry)
        if self._is_first and not self.is_over:
            self._loop.send_later(moment, table, lambda: self._meeting.result(entry))

    def passed(self, step: int, epoch: int) -> None:
        self._meeting.passed(step, epoch)

    def leave(self) -> None:
        """The monitor closes."""
        self._meeting.leave()


def _fingerprint(table: SiteTable, when: Sequence[str]) -> str:
    """What is measured, and when: the same text on all ranks."""

    def words(row: int) -> list[Any]:
        position, site = table.rows[row]
        info = table.plan.info(position)
        shape = [size if size is None else int(size) for size in info.shape]
        return [str(site.kind), site.path, shape, str(info.dtype), row in table.with_cells]

    return json.dumps([when, [words(row) for row in range(len(table.rows))]])
