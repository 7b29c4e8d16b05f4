"""Ranks that bring together what they have measured, here as threads of one process."""

import threading

import numpy as np
import pytest

from gradwatch.capture.loop import shard_meeting as meetings
from gradwatch.capture.loop.agreed_steps import LEAD, AgreedSteps, ScheduleAnnouncer, ScheduleUpdate
from gradwatch.capture.loop.shard_meeting import ShardEntry, ShardMeeting
from gradwatch.core import CELLS, schedule
from gradwatch.core.reference import count_cells, summarize
from gradwatch.watches.budget import Pacer, is_in_floor
from gradwatch.watches.plan import Timetable
from gradwatch.watches.watch import gradients

PATIENCE = 300.0
WHOLE = np.linspace(-3.0, 5.0, 101) ** 3


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(meetings, "PATIENCE", PATIENCE)


class Room:
    """Where threads meet for an all-reduce."""

    def __init__(self, count):
        self.count = count
        self.barrier = threading.Barrier(count, timeout=PATIENCE)
        self.given = [None] * count

    def exchanged(self, index, numbers):
        self.given[index] = numbers
        self.barrier.wait()
        everything = np.array(self.given)
        self.barrier.wait()
        return everything


class ThreadRanks:
    def __init__(self, room, index):
        self._room, self.index, self.count = room, index, room.count

    def connect(self, is_over, reporter):
        return None

    def add(self, numbers):
        return self._room.exchanged(self.index, numbers).sum(axis=0)

    def highest(self, numbers):
        return self._room.exchanged(self.index, numbers).max(axis=0)


class Rank:
    """A rank that trains; its shard is a part of `WHOLE`."""

    def __init__(self, room, index, every, wish=None, cells=0):
        self.index, self.said = index, []
        pacer = Pacer(0.01)
        default = pacer.schedule if every is None else schedule.as_schedule(every)
        watch = gradients(histogram="epoch") if cells else gradients()
        self.steps = AgreedSteps(Timetable([watch], default))
        pacer.follow(self.steps.is_paced)
        announcer = ScheduleAnnouncer(wish, self.steps.goes_by_epoch) if index == 0 else None
        ranks = ThreadRanks(room, index)
        self.meeting = ShardMeeting(ranks, self.steps, 1, cells, announcer, self)
        self.entries = {}
        self.step = 0
        self.shard = np.array_split(WHOLE, room.count)[index]

    def notice(self, text):
        """As a reporter."""
        self.said.append(text)

    def train(self, steps, epoch=1, fails=()):
        for _ in range(steps):
            self.step += 1
            if self.steps.is_measured(self.step):
                counted = self.steps.has_cells(self.step) * 1

                def wait(step=self.step, counted=counted):
                    if step in fails:
                        raise MemoryError("no room")
                    cells = np.array([count_cells(self.shard)] * counted).reshape(-1, CELLS)
                    return {"rows": summarize(self.shard)[None], "cells": cells}

                self.entries[self.step] = entry = ShardEntry(wait)
                self.meeting.put(self.step, entry)
            self.meeting.passed(self.step, epoch)

    def settle(self):
        for entry in list(self.entries.values()):
            self.meeting.result(entry)

    def merged(self):
        return [step for step, entry in self.entries.items() if self.meeting.result(entry)]


def ranks(count, every, **options):
    room = Room(count)
    return [Rank(room, index, every, **options) for index in range(count)]


def train_together(everybody, steps):
    for rank in everybody:
        rank.train(steps)
    for rank in everybody:
        rank.settle()


def leave(everybody):
    for rank in everybody:
        rank.meeting.leave()
    for rank in everybody:
        rank.meeting._thread.join(PATIENCE)
        assert rank.meeting.is_over


def test_shards_merge_into_the_summary_and_the_histogram_of_the_whole():
    everybody = ranks(3, 2, cells=1)
    for rank in everybody:
        rank.train(4)
    merged = everybody[0].meeting.result(everybody[0].entries[1])
    np.testing.assert_allclose(merged["rows"], summarize(WHOLE)[None], rtol=1e-12)
    np.testing.assert_array_equal(merged["cells"], count_cells(WHOLE)[None])
    later = everybody[1].meeting.result(everybody[1].entries[4])
    np.testing.assert_allclose(later["rows"], summarize(WHOLE)[None], rtol=1e-12)
    assert later["cells"].shape == (0, CELLS)
    leave(everybody)
    assert [rank.said for rank in everybody] == [[], [], []]


def test_all_follow_the_interval_that_the_first_announces_however_far_they_are():
    first, second = ranks(2, None, wish=lambda: (3, False))
    first.train(100)
    second.train(100)  # It trains on before it has heard of anything.
    leave([first, second])
    together = set(first.merged()) & set(second.merged())
    assert first.steps._updates == second.steps._updates != []
    since = first.steps._updates[0].since
    wanted = [s for s in range(1, 101) if is_in_floor(s) or s % (10 if s < since else 3) == 0]
    assert [s for s in range(1, 101) if second.steps.is_measured(s)] == wanted
    assert together <= set(wanted)
    assert first.said == second.said == []


def test_a_pause_that_the_budget_wishes_ends_by_itself():
    pauses = iter([True] + [True] * 1000)
    first, second = ranks(2, None, wish=lambda: (1, next(pauses)))
    for _ in range(200):
        train_together([first, second], 1)
    leave([first, second])
    pause = first.steps._updates[0]
    assert second.merged() == [*range(1, pause.until), *range(pause.since, 201)]


def test_a_step_that_one_could_not_measure_is_nobodys():
    first, second = ranks(2, 1)
    first.train(5)
    second.train(5, fails={3})
    leave([first, second])
    assert first.merged() == second.merged() == [1, 2, 4, 5]


def test_who_leaves_ends_it_for_all_and_they_are_told():
    first, second = ranks(2, 2)
    second.train(4)
    second.meeting.leave()
    first.train(10)
    first.settle()
    first.meeting._thread.join(PATIENCE)
    assert first.merged() == [2, 4]
    assert "1 of 2 ranks have closed" in first.said[0]
    assert "from step 6 on" in first.said[0]
    assert second.said == []


def test_ranks_whose_schedules_disagree_are_told_and_nothing_is_merged():
    room = Room(2)
    first = Rank(room, 0, lambda step: step % 2 == 0)
    second = Rank(room, 1, lambda step: step % 3 == 0)
    for rank in (first, second):
        rank.train(6)
    for rank in (first, second):  # It ends by itself; of ranks that leave, nothing is said.
        rank.meeting._thread.join(PATIENCE)
        assert rank.meeting.is_over
    assert first.merged() == second.merged() == []
    assert "do not agree" in first.said[0]


def test_who_waits_in_vain_gives_up_and_then_waits_no_more(monkeypatch):
    monkeypatch.setattr(meetings, "PATIENCE", 0.05)
    alone = Rank(Room(2), 0, 1)
    alone.train(60)
    assert alone.merged() == []
    alone.meeting.leave()
    alone.meeting._ranks._room.barrier.abort()
    alone.meeting._thread.join(PATIENCE)


def test_an_epoch_is_announced_to_all_and_measured_by_all_at_one_step():
    first, second = ranks(2, 5, cells=1)
    train_together([first, second], 4)
    for steps in (1, 25):  # Only the first is told of epochs.
        first.train(steps, epoch=2)
        second.train(steps)
        first.settle()
        second.settle()
    leave([first, second])
    assert second.merged() == first.merged()
    with_cells = [step for step, e in second.entries.items() if len(e.merged.get("cells", ()))]
    assert with_cells == [1, 5 + LEAD]


@pytest.mark.parametrize("every", ["epoch", 10**6])
def test_where_no_step_is_due_of_itself_the_ranks_still_meet(every):
    steps = AgreedSteps(Timetable([gradients()], schedule.as_schedule(every)))
    found = [step for step in range(1, 301) if steps.is_measured(step)]
    assert found == ([1] if every == "epoch" else []) + [100, 200, 300]


def test_news_of_an_interval_hold_from_then_on_until_the_next():
    pacer = Pacer(0.01)
    steps = AgreedSteps(Timetable([gradients()], pacer.schedule))
    pacer.follow(steps.is_paced)
    steps.apply(ScheduleUpdate(30, 60, 20))
    steps.apply(ScheduleUpdate(85, 85, 5))
    found = {s for s in range(1, 101) if steps.is_measured(s)}
    assert found == {
        *(s for s in range(1, 30) if s % 10 == 0 or is_in_floor(s)),
        *(s for s in range(60, 85) if s % 20 == 0 or is_in_floor(s)),
        *(s for s in range(85, 101) if s % 5 == 0 or is_in_floor(s)),
    }
