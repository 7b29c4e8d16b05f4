"""Short trainings are seen whatever the budget has room for, within seconds."""

import math

import pytest

from gradwatch.core.schedule import Moment
from gradwatch.watches.budget import Pacer, floor, is_in_floor
from tests.watches.budget.machine import Machine, train


def test_the_first_steps_are_all_in_it_and_later_ones_ever_more_rarely():
    assert all(map(is_in_floor, range(1, 21)))
    counts = {n: sum(map(is_in_floor, range(1, n + 1))) for n in (189, 1000, 10_000, 100_000)}
    assert 60 <= counts[189] <= 80
    assert 100 <= counts[1000] <= 130
    assert counts[10_000] - counts[1000] == counts[100_000] - counts[10_000] <= 70


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize(
    ("steps", "least", "lag"),
    # To compare with steps behind which nothing is measured takes the longer the device lags.
    [(5, 5, 0), (20, 20, 0), (189, 45, 0), (1000, 85, 0), (189, 30, 32), (1000, 60, 32)],
)
def test_a_short_training_is_measured_though_the_budget_has_no_room(steps, least, lag, noise):
    # A tenth of a millisecond for a step, and twenty times that for measuring it.
    machine = Machine(step=1e-4, added=2e-3, lag=lag, noise=noise)
    train(machine, steps)
    assert machine.measured[:20] == list(range(1, min(steps, 20) + 1))
    assert len(machine.measured) >= least
    # Nowhere is there more than a third of the training without any.
    gaps = [b - a for a, b in zip(machine.measured, machine.measured[1:], strict=False)]
    assert max(gaps, default=0) <= max(steps / 3, 10)


@pytest.mark.parametrize("added", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("step", [0.001, 0.3, 2.0])
def test_it_adds_no_more_than_some_seconds_where_measuring_is_dear(step, added):
    machine = Machine(step=step, added=added)
    train(machine, 2000)
    spent = len(machine.measured) * added
    # Some more are needed to learn what measuring adds.
    limit = max(floor.SECONDS, floor.BLIND_SECONDS) + 10 * added
    assert spent <= 0.0103 * 2000 * step + limit


def test_a_training_that_goes_on_from_a_checkpoint_has_first_steps_too():
    machine = Machine(step=1e-4, added=2e-3)
    machine.steps = 50_003
    train(machine, 30)
    assert machine.measured[:20] == list(range(50_004, 50_024))


def test_slow_steps_that_are_cheap_to_measure_get_the_whole_floor():
    machine = Machine(step=1.0, added=0.001)
    train(machine, 189)
    assert len(machine.measured) >= 60


def test_without_enough_to_compare_nothing_is_said_of_the_cost():
    machine = Machine(step=0.01, added=0.02)
    for steps in (1, 19, 30):
        pacer = train(Machine(step=0.01, added=0.02), steps)
        assert math.isnan(pacer.cost().fraction)
        assert pacer.cost().words() == ""
    pacer = train(machine, 1000)
    assert not math.isnan(pacer.cost().fraction)
    assert pacer.cost().words().endswith("of the training time")


def test_a_difference_within_the_noise_is_no_cost():
    # Steps that take from 1 to 40 times as long, as on a machine with other things to do.
    machine = Machine(step=0.001, added=0.0001, noise=0.0)
    pacer, rng = Pacer(0.01, clock=lambda: machine.now), machine._rng
    for step in range(1, 190):
        is_due = pacer.schedule.due(Moment(step))
        pacer.tick([Moment(step)], is_due)
        machine.run(is_due)
        machine.now += 0.001 * float(rng.pareto(1.0))
    cost = pacer.cost()
    true = len(machine.measured) * 0.0001 / (189 * 0.002)
    assert math.isnan(cost.fraction) or abs(cost.fraction - true) < 0.5


@pytest.mark.parametrize(("stall", "is_known"), [((50, 0.05), True), ((7, 0.3), False)])
def test_nothing_is_said_where_most_of_the_time_goes_elsewhere(stall, is_known):
    pacer = train(Machine(added=0.01), 2000, stall=stall)
    assert pacer.cost().is_known == is_known


def test_the_compilation_is_known_where_every_step_is_measured():
    machine = Machine(step=0.01, added=0.001, compiling=7.0)
    pacer = Pacer(None, machine.is_quiet, clock=lambda: machine.now)
    for step in range(1, 5):
        pacer.tick([Moment(step)], True)
        machine.run(True)
    pacer.tick([Moment(5)], True)
    assert pacer.cost().compile_seconds == pytest.approx(7.0)
    assert math.isnan(pacer.cost().fraction)
