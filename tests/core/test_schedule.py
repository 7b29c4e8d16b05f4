"""When a schedule is due, in all its forms and combinations."""

import pytest

from gradwatch.core import schedule
from gradwatch.core.schedule import Moment, as_schedule


def steps(spec, until=30):
    due = as_schedule(spec).due
    return [s for s in range(1, until + 1) if due(Moment(step=s))]


def epochs(spec, length=5, until=4):
    """Steps due where epochs have `length` steps, of which the last stands for the epoch."""
    moments = [
        Moment(step=e * length + b + 1, epoch=e + 1, stands_for_epoch=b == length - 1)
        for e in range(until)
        for b in range(length)
    ]
    return [m.step for m in moments if as_schedule(spec).due(m)]


def test_a_number_means_every_nth_step():
    assert steps(10) == steps(schedule.every(10)) == [10, 20, 30]
    assert steps(1, until=3) == [1, 2, 3]


def test_epoch_means_the_step_that_stands_for_it():
    assert epochs("epoch") == [5, 10, 15, 20]
    assert epochs(schedule.each_epoch(2)) == [10, 20]


def test_a_list_means_these_steps():
    assert steps([7, 1, 7]) == steps(schedule.at(1, 7)) == [1, 7]


def test_a_function_decides_by_the_step():
    assert steps(lambda s: s in (2, 3)) == [2, 3]


def test_first_takes_the_first_steps_and_never_none():
    assert steps(schedule.first(3)) == [1, 2, 3]
    assert steps(schedule.never()) == []


def test_log_spaced_has_so_many_steps_in_each_decade():
    due = steps(schedule.log_spaced(5), until=10_000)
    assert due[:5] == [1, 2, 3, 4, 6]
    assert {10, 100, 1000, 10_000} <= set(due)
    for low in (10, 100, 1000):
        assert sum(low <= s < 10 * low for s in due) == 5


def test_schedules_combine():
    assert steps(schedule.first(2) | 10) == [1, 2, 10, 20, 30]
    assert steps(schedule.every(5) & schedule.first(12)) == [5, 10]
    assert steps(~schedule.every(2), until=5) == [1, 3, 5]
    assert epochs(schedule.each_epoch() | [1]) == [1, 5, 10, 15, 20]


def test_a_schedule_says_what_it_is():
    assert repr(schedule.first(2) | "epoch") == "(first(2) | each_epoch(1))"


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (0, ValueError, "n=0"),
        (-3, ValueError, "n=-3"),
        ("batch", ValueError, "'batch'"),
        (True, TypeError, "True"),
        (1.5, TypeError, "1.5"),
        ([0], ValueError, "counted from 1"),
        (["a"], ValueError, "'a'"),
        (None, TypeError, "NoneType"),
    ],
)
def test_what_is_no_schedule_is_refused_with_the_culprit(spec, error, message):
    with pytest.raises(error, match=message):
        as_schedule(spec)


def test_what_the_moment_alone_decides_is_told_from_functions_of_the_users():
    ours = [
        schedule.every(3),
        schedule.each_epoch(),
        schedule.at(1, 2),
        schedule.first(4),
        schedule.log_spaced(),
        schedule.never(),
    ]
    assert all(each.is_fixed for each in ours)
    assert (~ours[0] & ours[1] | ours[2]).is_fixed
    theirs = schedule.as_schedule(lambda step: step > 3)
    assert not theirs.is_fixed
    assert not any(each.is_fixed for each in (~theirs, theirs | ours[0], ours[0] & theirs))
