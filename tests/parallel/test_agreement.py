"""Whether all processes of a training come to the same verdict on what to measure."""

import threading
from types import SimpleNamespace

import pytest

from gradwatch.core.schedule import Moment
from gradwatch.parallel import agreement
from gradwatch.parallel.ranks import Rank
from gradwatch.watches import Timetable, gradients
from gradwatch.watches.budget import Pacer, is_in_floor


class Shared:
    """A store of one process, for threads that stand for processes.

    Its time passes only while all of them wait: then it is that at which the first gives up.

    Args:
        asking: how many threads there are.
    """

    def __init__(self, asking):
        self._values, self._change = {}, threading.Condition()
        self._at_work, self._deadlines = asking, {}
        self._now = 0.0

    def time(self):
        return self._now

    def write_once(self, key, value):
        with self._change:
            self._values.setdefault(key, value)
            self._change.notify_all()

    def read(self, key, seconds):
        with self._change:
            own = threading.get_ident()
            self._deadlines[own] = self._now + seconds, key
            self._rest()
            assert self._change.wait_for(lambda: self._is_over(own), 120)
            del self._deadlines[own]
            self._at_work += 1
            return self._values.get(key)

    def sleep(self, seconds):
        self.read("what nobody writes", seconds)

    def leave(self):
        with self._change:
            self._rest()

    def _rest(self):
        self._at_work -= 1
        waiting = [deadline for deadline, key in self._deadlines.values()]
        if not self._at_work and not any(map(self._is_over, self._deadlines)) and waiting:
            self._now = min(waiting)
        self._change.notify_all()

    def _is_over(self, thread):
        deadline, key = self._deadlines[thread]
        return key in self._values or self._now >= deadline


def verdicts(wishes, late=(), functions=()):
    """What each rank is told; a rank whose wish is None does not ask."""
    asking = [(i, wish) for i, wish in enumerate(wishes) if wish is not None]
    store, found, patience = Shared(len(asking)), {}, 10.0

    def ask(index, wish):
        if index in late:
            store.sleep(3 * patience)
        rank = Rank(index, len(wishes), "jax")
        found[index] = agreement.agree(rank, store, "fit", [wish], patience, functions)
        store.leave()

    threads = [threading.Thread(target=ask, args=each) for each in asking]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agreement, "time", SimpleNamespace(monotonic=store.time))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    assert len(found) == len(asking)
    return list(found.values())


def test_processes_with_the_same_wishes_measure():
    assert verdicts(["gradients() every 10"] * 3) == [None] * 3


def test_where_an_object_lies_in_memory_makes_no_difference():
    assert verdicts(["<function f at 0x7f01>", "<function f at 0x7f02>"]) == [None, None]


def test_another_wish_of_one_process_keeps_all_from_measuring():
    told = verdicts(["every 10", "every 10", "every 20"])
    assert len(set(told)) == 1
    assert "process 2 of 3" in told[0]
    assert "every 20" in told[0]


def test_a_schedule_of_which_nobody_knows_what_it_chooses_keeps_all_from_measuring():
    told = verdicts(["every mine"] * 3, functions=["mine"])
    assert len(set(told)) == 1
    assert "mine is a function of your own" in told[0]
    # Who has another wish is told of that.
    assert "process 1 of 2" in verdicts(["every mine", "every 10"], functions=["mine"])[0]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_process_that_does_not_ask_keeps_all_from_measuring(missing):
    told = verdicts([None if i == missing else "all" for i in range(3)])
    assert len(set(told)) == 1
    assert f"process {missing} of 3 has no monitor" in told[0]


@pytest.mark.parametrize("late", [0, 1])
def test_a_process_that_is_late_is_told_the_same_as_the_others(late):
    told = verdicts(["all", "all"], late={late})
    assert len(set(told)) == 1
    assert "was too late" in told[0]


def test_a_process_on_its_own_asks_nobody_and_keeps_its_pace():
    pacer = Pacer(0.01)
    assert agreement.refusal(Timetable([gradients()], pacer.schedule), pacer) is None
    assert pacer.schedule.due(Moment(10))


def test_under_jax_a_budget_chooses_steps_that_do_not_depend_on_time(monkeypatch):
    pacer, store = Pacer(0.01), Shared(1)
    monkeypatch.setattr(agreement, "current", lambda: Rank(1, 2, "jax"))
    monkeypatch.setattr(agreement, "_JaxKeyValueStore", lambda: store)
    assert "no monitor" in agreement.refusal(Timetable([gradients()], pacer.schedule), pacer)
    for step in range(1, 400):
        pacer.tick([Moment(step)], pacer.schedule.due(Moment(step)))
    found = [step for step in range(1, 10_001) if pacer.schedule.due(Moment(step))]
    assert found == [step for step in range(1, 10_001) if step % 100 == 0 or is_in_floor(step)]
