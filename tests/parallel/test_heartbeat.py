"""The heartbeat of a process that measures nothing of its own."""

from gradwatch import Kind, Reading, Summary
from gradwatch.parallel.heartbeat import Heartbeat


def reading(step, time, group="", micro_batch=None):
    empty = Summary.empty((0,))
    return Reading(step, 3, 1e9 + time, [], empty, group=group, micro_batch=micro_batch)


def told(sign):
    return sign.numbers(Kind.SCALAR)


def test_it_is_the_time_of_a_step_since_the_last_sign():
    heartbeat = Heartbeat(4)
    first = heartbeat.beat(reading(10, 50.0))
    assert told(first) == {"processes": 4.0}  # Since when, is not known.
    assert (first.step, first.epoch, first.time) == (10, 3, 1e9 + 50)
    second = heartbeat.beat(reading(30, 54.0))
    assert told(second) == {"step_seconds": 4.0 / 20}


def test_there_is_one_for_each_step_however_much_is_measured_of_it():
    heartbeat = Heartbeat(4)
    assert heartbeat.beat(reading(1, 1.0, micro_batch=0)) is None
    assert heartbeat.beat(reading(1, 1.0)) is not None
    assert heartbeat.beat(reading(1, 1.5)) is None


def test_groups_have_steps_of_their_own():
    heartbeat = Heartbeat(4)
    for step in (1, 2):
        for group, ahead in (("generator", 0), ("critic", 100)):
            sign = heartbeat.beat(reading(step + ahead, float(step), group))
            assert sign.group == group
    assert told(sign) == {"critic/step_seconds": 1.0}


def test_a_training_that_goes_back_begins_anew():
    heartbeat = Heartbeat(4)
    heartbeat.beat(reading(100, 10.0))
    assert told(heartbeat.beat(reading(5, 11.0))) == {"processes": 4.0}
    assert told(heartbeat.beat(reading(6, 13.0))) == {"step_seconds": 2.0}
