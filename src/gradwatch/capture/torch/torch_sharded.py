"""A sharded torch module: its measurements on their way to one record of the whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gradwatch.capture.loop.agreed_steps import AgreedSteps, ScheduleAnnouncer
from gradwatch.capture.loop.loop_recorder import LoopRecorder
from gradwatch.capture.loop.shard_meeting import ShardEntry, ShardMeeting
from gradwatch.capture.site_table import SiteTable
from gradwatch.capture.torch.torch_parallel import Shards
from gradwatch.capture.torch.torch_parts import Part, Subtables, together
from gradwatch.capture.torch.torch_ranks import TorchRanks
from gradwatch.core.schedule import Moment
from gradwatch.measure import framework


class Sharded:
    """Which steps are measured, which shards are ours, and where the measurements go.

    Args:
        loop: the recorder.
        group: the name that paths begin with; may be empty.
        table: what is measured.
    """

    def __init__(self, loop: LoopRecorder, group: str, table: SiteTable) -> None:
        self.shards = Shards(loop.reporter)
        self.steps = AgreedSteps(loop.timetable)
        self._loop = loop
        self._subtables = Subtables()
        loop.follow(self.steps.is_paced)
        if table.plan.with_values:
            loop.reporter.notice(
                "Pictures and spectral norms of sharded parameters are not recorded: they would "
                "need the whole parameter in one place."
            )
        variables = _variables(table)
        self._sites = [table.rows[place][1] for place in variables]
        counted = [place for place in variables if table.rows[place][0] in _counted(table)]
        when = [*map(str, loop.timetable.watches), str(loop.timetable.every)]
        ranks = TorchRanks(group, _fingerprint(table, variables, when))
        self._is_first = ranks.index == 0
        announcer = (
            ScheduleAnnouncer(loop.pace, self.steps.goes_by_epoch) if self._is_first else None
        )
        self._meeting = ShardMeeting(
            ranks, self.steps, len(variables), len(counted), announcer, loop.reporter
        )

    @property
    def is_over(self) -> bool:
        """Whether nothing is brought together any more."""
        return self._meeting.is_over

    def send(self, moment: Moment, table: SiteTable, parts: Sequence[Part]) -> None:
        """Have a step's measurements of shards merged, and recorded by the first rank."""
        own = self._subtables.of(table, parts)
        if [site for _, site in own.rows] != self._sites:
            self._loop.reporter.notice(
                "What can be trained has changed since watch() was called: nothing more is "
                "recorded of sharded parameters. Close the monitor and watch again, on all ranks."
            )
            return
        entry = ShardEntry(framework("torch").fetch(together(parts), ["rows", "cells"]))
        self._meeting.put(moment.step, entry)
        if self._is_first and not self.is_over:
            self._loop.send_later(moment, own, lambda: self._meeting.result(entry))

    def passed(self, step: int, epoch: int) -> None:
        """A step is past, measured or not."""
        self._meeting.passed(step, epoch)

    def leave(self) -> None:
        """The monitor closes."""
        self._meeting.leave()


def _variables(table: SiteTable) -> list[int]:
    return [place for place, (_, site) in enumerate(table.rows) if site.kind.is_of_variable]


def _counted(table: SiteTable) -> set[int]:
    return set(table.plan.with_histogram)


def _fingerprint(table: SiteTable, places: Sequence[int], when: Sequence[str]) -> str:
    """What is measured, and when, in words that are the same on all ranks."""

    def words(place: int) -> list[Any]:
        position, site = table.rows[place]
        info = table.plan.info(position)
        shape = [size if size is None else int(size) for size in info.shape]
        return [str(site.kind), site.path, shape, str(info.dtype), position in _counted(table)]

    return json.dumps([when, [words(place) for place in places]])
