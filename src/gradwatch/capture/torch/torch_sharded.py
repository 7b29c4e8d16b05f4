"""A sharded torch module: its measurements on their way to one record of the whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gradwatch.capture.loop.agreed_steps import AgreedSteps, Announcer
from gradwatch.capture.loop.meeting import Entry, Meeting
from gradwatch.capture.loop.recorder import LoopRecorder
from gradwatch.capture.loop.step_layout import Layout
from gradwatch.capture.torch.torch_parallel import Shards
from gradwatch.capture.torch.torch_parts import Part, Sublayouts, together
from gradwatch.capture.torch.torch_ranks import TorchRanks
from gradwatch.core.schedule import Moment
from gradwatch.measure import framework


class Sharded:
    """Which steps are measured, which shards are ours, and where the measurements go.

    Args:
        loop: the recorder.
        group: the name that paths begin with; may be empty.
        layout: what is measured.
    """

    def __init__(self, loop: LoopRecorder, group: str, layout: Layout) -> None:
        self.shards = Shards(loop.remark)
        self.steps = AgreedSteps(loop.timetable)
        self._loop = loop
        self._sublayouts = Sublayouts()
        loop.follow(self.steps.is_paced)
        if layout.plan.with_values:
            loop.remark(
                "Pictures and spectral norms of sharded parameters are not recorded: they would "
                "need the whole parameter in one place."
            )
        variables = _variables(layout)
        self._sites = [layout.rows[place][1] for place in variables]
        counted = [place for place in variables if layout.rows[place][0] in _counted(layout)]
        when = [*map(str, loop.timetable.watches), str(loop.timetable.every)]
        ranks = TorchRanks(group, _fingerprint(layout, variables, when))
        self._is_first = ranks.index == 0
        announcer = Announcer(loop.pace, self.steps.goes_by_epoch) if self._is_first else None
        self._meeting = Meeting(
            ranks, self.steps, len(variables), len(counted), announcer, loop.remark
        )

    @property
    def is_over(self) -> bool:
        """Whether nothing is brought together any more."""
        return self._meeting.is_over

    def send(self, moment: Moment, layout: Layout, parts: Sequence[Part]) -> None:
        """Have a step's measurements of shards merged, and recorded by the first rank."""
        own = self._sublayouts.of(layout, parts)
        if [site for _, site in own.rows] != self._sites:
            self._loop.remark(
                "What can be trained has changed since watch() was called: nothing more is "
                "recorded of sharded parameters. Close the monitor and watch again, on all ranks."
            )
            return
        entry = Entry(framework("torch").fetch(together(parts), ["rows", "cells"]))
        self._meeting.put(moment.step, entry)
        if self._is_first and not self.is_over:
            self._loop.send_later(moment, own, lambda: self._meeting.result(entry))

    def passed(self, step: int, epoch: int) -> None:
        """A step is past, measured or not."""
        self._meeting.passed(step, epoch)

    def leave(self) -> None:
        """The monitor closes."""
        self._meeting.leave()


def _variables(layout: Layout) -> list[int]:
    return [place for place, (_, site) in enumerate(layout.rows) if site.kind.is_of_variable]


def _counted(layout: Layout) -> set[int]:
    return set(layout.plan.with_histogram)


def _fingerprint(layout: Layout, places: Sequence[int], when: Sequence[str]) -> str:
    """What is measured, and when, in words that are the same on all ranks."""

    def words(place: int) -> list[Any]:
        position, site = layout.rows[place]
        info = layout.plan.info(position)
        shape = [size if size is None else int(size) for size in info.shape]
        return [str(site.kind), site.path, shape, str(info.dtype), position in _counted(layout)]

    return json.dumps([when, [words(place) for place in places]])
