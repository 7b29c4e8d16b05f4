"""What a process writes that measures nothing of its own."""

from gradwatch import Kind, Reading, Summary
from gradwatch.parallel.heartbeat import SignsOfLife


def reading(step, group="", micro_batch=None):
    empty = Summary.empty((0,))
    return Reading(step, 3, 1e9 + step, [], empty, group=group, micro_batch=micro_batch)


def told(sign):
    return sign.numbers(Kind.SCALAR)


def test_it_is_the_time_of_a_step_since_the_last_sign():
    signs = SignsOfLife(4)
    first = signs.of(reading(10), now=50.0)
    assert told(first) == {"processes": 4.0}  # Since when, is not known.
    assert (first.step, first.epoch, first.time) == (10, 3, 1e9 + 10)
    second = signs.of(reading(30), now=54.0)
    assert told(second) == {"step_seconds": 4.0 / 20}


def test_there_is_one_for_each_step_however_much_is_measured_of_it():
    signs = SignsOfLife(4)
    assert signs.of(reading(1, micro_batch=0), now=1.0) is None
    assert signs.of(reading(1), now=1.0) is not None
    assert signs.of(reading(1), now=1.5) is None


def test_groups_have_steps_of_their_own():
    signs = SignsOfLife(4)
    for step in (1, 2):
        for group, ahead in (("generator", 0), ("critic", 100)):
            sign = signs.of(reading(step + ahead, group), now=float(step))
            assert sign.group == group
    assert told(sign) == {"critic/step_seconds": 1.0}


def test_a_training_that_goes_back_begins_anew():
    signs = SignsOfLife(4)
    signs.of(reading(100), now=10.0)
    assert told(signs.of(reading(5), now=11.0)) == {"processes": 4.0}
    assert told(signs.of(reading(6), now=13.0)) == {"step_seconds": 2.0}
