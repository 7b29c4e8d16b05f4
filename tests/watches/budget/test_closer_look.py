"""The steps that are measured after a sign of trouble."""

import pytest

from gradwatch.core import Moment
from gradwatch.watches.budget import Pacer, closer_look
from tests.watches.budget.machine import Machine, train

STEPS = closer_look.STEPS


def settled(**options):
    """A machine on which every 50th step is measured, and its pacer."""
    machine = Machine(step=0.02, added=0.008, **options)
    return machine, train(machine, 3000)


def measured_since(machine, step):
    return [each for each in machine.measured if each > step]


def test_after_a_sign_the_next_steps_are_measured():
    machine, pacer = settled()
    pacer.look_closer()
    train(machine, 100, pacer=pacer)
    after = measured_since(machine, 3000)
    assert after[:STEPS] == list(range(3001, 3001 + STEPS))
    assert len(after) <= STEPS + 3
    # Readings ask later.
    assert [s for s in range(3001, 3101) if pacer.schedule.due(Moment(s))] == after


def test_a_sign_from_another_thread_counts_from_the_step_after_the_next():
    machine, pacer = settled()
    pacer.suspect()
    train(machine, 60, pacer=pacer)
    assert measured_since(machine, 3000)[:STEPS] == list(range(3002, 3002 + STEPS))


def test_a_training_full_of_signs_is_not_slow():
    machine, pacer = settled()
    for _ in range(2000):
        pacer.look_closer()
        train(machine, 1, pacer=pacer)
    assert len(measured_since(machine, 3000)) <= closer_look.MOST_STEPS + 2000 // 20


def test_long_trainings_may_look_closer_more_often():
    machine, pacer = settled()
    train(machine, 27_000, pacer=pacer)
    for _ in range(200):
        pacer.look_closer()
        train(machine, 1, pacer=pacer)
    assert len(measured_since(machine, 30_000)) == 200


def test_where_measuring_is_slow_it_ends_early():
    machine = Machine(step=1.0, added=2.0)
    pacer = train(machine, 500)
    pacer.look_closer()
    train(machine, 50, pacer=pacer)
    assert len(measured_since(machine, 500)) <= 5


@pytest.mark.parametrize("budget", [None, 0.01])
def test_a_chosen_or_agreed_schedule_is_not_left(budget):
    pacer = Pacer(budget)
    pacer.follow(lambda step: step % 7 == 0)
    for step in range(1, 100):
        pacer.tick([Moment(step)], pacer.schedule.due(Moment(step)))
        pacer.suspect()
        pacer.look_closer()
    assert [s for s in range(50, 100) if pacer.schedule.due(Moment(s))] == [
        s for s in range(50, 100) if s % 7 == 0
    ]
