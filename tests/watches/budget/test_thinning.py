"""Which of the steps that the user has chosen are whole."""

import pytest

from gradwatch.core import schedule
from gradwatch.core.schedule import Moment
from gradwatch.watches.budget import ThinningPacer, is_in_floor


def train(asked_for, steps, added=0.05, step=0.01):
    """Train on a machine whose whole steps take longer; returns the pacer and the whole steps."""
    now = [0.0]
    pacer = ThinningPacer(0.01, asked_for, clock=lambda: now[0])
    whole = []
    for number in range(1, steps + 1):
        moment = Moment(number)
        is_measured = asked_for.due(moment)
        is_whole = is_measured and pacer.thinned.due(moment)
        pacer.tick([moment], is_measured, whole=is_whole)
        now[0] += step + added * is_whole
        whole += [number] * is_whole
    return pacer, whole


def test_whole_steps_are_the_floor_and_then_as_many_as_the_budget_has_room_for():
    _, whole = train(schedule.every(1), 20_000)
    assert whole[:20] == list(range(1, 21))
    late = [step for step in whole if step > 10_000]
    assert all(step % 500 == 0 or is_in_floor(step) for step in late)
    assert 0 < len(late) * 0.05 / (10_000 * 0.01) < 0.03


def test_where_measuring_more_costs_nothing_all_steps_are_whole():
    _, whole = train(schedule.every(1), 5_000, added=0.0)
    assert len([step for step in whole if step > 4_000]) > 900


@pytest.mark.parametrize("asked_for", [schedule.every(7), schedule.every(70), schedule.at(3, 777)])
def test_rare_steps_are_whole_also_if_they_are_no_multiples(asked_for):
    _, whole = train(asked_for, 1_000)
    asked = [step for step in range(1, 1_001) if asked_for.due(Moment(step))]
    assert set(whole) <= set(asked)
    assert len(whole) >= min(len(asked), 14)


def test_a_function_of_the_users_is_not_asked_about_other_steps():
    asked = []
    pacer = ThinningPacer(0.01, schedule.as_schedule(lambda step: asked.append(step) or True))
    assert pacer.thinned.due(Moment(777))
    assert asked == []


def test_a_sign_of_trouble_makes_the_next_steps_whole():
    pacer, _ = train(schedule.every(1), 5_001)
    assert not all(pacer.thinned.due(Moment(step)) for step in range(5_002, 5_012))
    pacer.look_closer()
    assert all(pacer.thinned.due(Moment(step)) for step in range(5_002, 5_012))


def test_processes_that_train_together_have_whole_steps_only_unless_they_agreed():
    pacer, _ = train(schedule.every(1), 5_001)
    pacer.agree(True)
    assert all(pacer.thinned.due(Moment(step)) for step in range(5_002, 5_012))
    pacer.follow(lambda step: step == 5_005)
    pacer.agree(True)
    assert [step for step in range(5_002, 5_012) if pacer.thinned.due(Moment(step))] == [5_005]
