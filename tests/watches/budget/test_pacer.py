"""The interval that is chosen, on machines whose true cost is known."""

import json
import math

import numpy as np
import pytest

from gradwatch.core.schedule import Moment
from gradwatch.watches.budget import Pacer, is_in_floor
from tests.watches.budget.machine import Machine, train


def slowdown(machine, steps, **options):
    """How much longer training took than on the same machine without measuring."""
    bare = Machine(**{k: getattr(machine, k) for k in ("step", "lag", "noise")})
    for _ in range(steps):
        bare.run(False)
    bare.wait_for_device()
    train(machine, steps, **options)
    machine.wait_for_device()
    return machine.now / bare.now - 1


@pytest.mark.parametrize(
    ("share", "interval"),
    [(0.0, 1), (0.008, 1), (0.013, 2), (0.03, 5), (0.08, 10), (0.4, 50), (3.0, 500), (40.0, 5000)],
)
def test_the_densest_interval_within_the_budget_is_chosen(share, interval):
    machine = Machine(step=0.02, added=0.02 * share)
    cost = train(machine, 8000).cost()
    assert cost.interval == interval
    assert cost.step_seconds == pytest.approx(machine.step + 1e-5)
    assert cost.added_seconds == pytest.approx(machine.true_cost, abs=1e-9)
    assert (cost.steps, cost.measured_steps) == (8000, len(machine.measured))
    spent = len(machine.measured) * machine.true_cost
    assert cost.fraction == pytest.approx(spent / (8000 * 0.02001), abs=1e-9)


@pytest.mark.parametrize("lag", [0, 1, 5, 32])
def test_the_cost_is_seen_however_far_the_device_lags_behind(lag):
    machine = Machine(added=0.0004, lag=lag)
    cost = train(machine, 5000).cost()
    assert cost.interval == 5
    assert cost.added_seconds == pytest.approx(machine.true_cost, rel=0.15)


@pytest.mark.parametrize("lag", [0, 32])
def test_what_sinks_take_from_training_counts_as_well(lag):
    machine = Machine(added=0.0001, sinks=0.004, contention=0.5, lag=lag)
    cost = train(machine, 5000).cost()
    assert cost.interval == 50
    assert cost.added_seconds == pytest.approx(machine.true_cost, rel=0.1)


def test_sinks_that_cost_training_nothing_do_not_count():
    machine = Machine(sinks=0.009, contention=0.0)
    assert train(machine, 3000).cost().interval == 1


def test_sinks_that_are_slower_than_the_interval_are_waited_for():
    # 20 steps' worth of writing for each reading: at every 10th step it never ends.
    machine = Machine(sinks=0.2, contention=0.05)
    cost = train(machine, 5000).cost()
    assert cost.interval == 100
    assert cost.added_seconds == pytest.approx(0.01, rel=0.2)


@pytest.mark.parametrize("share", [0.03, 0.4])
def test_noise_neither_misleads_nor_unsettles_it(share):
    machine = Machine(added=0.01 * share, noise=0.2)
    pacer = train(machine, 20_000)
    exact = next(n for n in (1, 2, 5, 10, 20, 50, 100, 200) if share / n <= 0.01)
    seen = set()
    for _ in range(40):
        train(machine, 500, pacer=pacer)
        seen.add(pacer.cost().interval)
    assert seen <= {exact, exact * 2, exact * 5 // 2}
    assert len(seen) <= 2


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("lag", [0, 32])
def test_training_is_slowed_down_by_less_than_the_budget(share, lag, noise):
    machine = Machine(added=0.01 * share, lag=lag, noise=noise)
    floor = sum(map(is_in_floor, range(1, 20_001))) * share / 20_000
    # Finding out costs some steps; from 20,000 on that is no matter.
    assert slowdown(machine, 20_000) <= 0.0103 + floor


def test_a_larger_budget_buys_a_denser_interval():
    assert train(Machine(added=0.003), 3000, budget=0.05).cost().interval == 10
    assert train(Machine(added=0.003), 3000, budget=0.5).cost().interval == 1


def test_stalls_of_something_else_are_not_blamed_on_measuring():
    # A checkpoint every 60 steps, always together with a measured one.
    machine = Machine(added=0.0004)
    cost = train(machine, 3000, stall=(60, 1.0)).cost()
    assert cost.interval == 5
    assert cost.added_seconds == pytest.approx(0.0004, rel=0.1)


def test_stalls_of_steps_that_are_not_measured_do_not_make_measuring_look_cheap():
    machine = Machine(added=0.0012)
    cost = train(machine, 3000, stall=(31, 0.3)).cost()
    assert cost.step_seconds == pytest.approx(0.01, rel=0.01)
    assert cost.interval == 20


def test_stalls_while_every_step_is_measured_do_not_end_that():
    machine = Machine(added=0.00002)
    cost = train(machine, 6000, stall=(50, 0.5)).cost()
    assert cost.interval == 1


@pytest.mark.parametrize("per_epoch", [10**9, 100])
def test_steps_that_are_only_begun_are_not_taken_for_short_ones(per_epoch):
    # The host is 32 steps ahead: at first, and after each pause, it waits for nobody.
    machine = Machine(added=0.001, lag=32)
    pacer = train(machine, 1)
    for _ in range(600):
        train(machine, 1, pacer=pacer, per_epoch=per_epoch)
        seconds = pacer.cost().step_seconds
        assert math.isnan(seconds) or seconds == pytest.approx(0.01, rel=0.02)
    assert not math.isnan(seconds)


def test_compiling_counts_apart():
    machine = Machine(added=0.0004, compiling=30.0)
    cost = train(machine, 2000).cost()
    assert cost.compile_seconds == pytest.approx(30.0, rel=0.01)
    assert cost.interval == 5


def test_when_measuring_becomes_dearer_the_interval_grows_and_back_again():
    machine = Machine(added=0.0004)
    pacer = train(machine, 2000)
    assert pacer.cost().interval == 5
    machine.added = 0.004
    train(machine, 3000, pacer=pacer)
    assert pacer.cost().interval == 50
    machine.added = 0.0004
    train(machine, 20_000, pacer=pacer)
    assert pacer.cost().interval == 5


def test_when_steps_become_faster_the_interval_grows():
    machine = Machine(step=0.1, added=0.0008)
    pacer = train(machine, 2000)
    assert pacer.cost().interval == 1
    machine.step = 0.004
    train(machine, 10_000, pacer=pacer)
    assert pacer.cost().interval >= 20


@pytest.mark.parametrize("per_epoch", [3, 7, 15])
def test_each_of_the_first_epochs_is_measured_however_short(per_epoch):
    machine = Machine(added=0.1)  # for which the budget allows every 1000th step
    train(machine, 1500, per_epoch=per_epoch, validation=5.0)
    assert set(range(per_epoch, 10 * per_epoch + 1, per_epoch)) <= set(machine.measured)


def test_short_epochs_with_validation_in_between_are_enough_to_learn_from():
    machine = Machine(added=0.0003)
    cost = train(machine, 3000, per_epoch=12, validation=3.0).cost()
    assert cost.interval == 5
    assert cost.added_seconds == pytest.approx(0.0003, rel=0.1)


def test_measured_steps_are_the_multiples_of_the_interval_and_the_floor():
    machine = Machine(added=0.0004)
    pacer = train(machine, 2000)
    since = pacer.cost().since_step
    later = range(since, 2001)
    assert [s for s in machine.measured if s >= since] == [
        s for s in later if s % 5 == 0 or is_in_floor(s)
    ]
    assert all(s % 10 == 0 or is_in_floor(s) for s in machine.measured if s < since)


def test_measuring_every_step_leaves_out_few_steps_and_ever_fewer():
    machine = Machine(added=0.00001)
    train(machine, 20_000)
    missing = set(range(1001, 20_001)) - set(machine.measured)
    assert len(missing) < 0.02 * 19_000
    assert len([s for s in missing if s > 10_000]) < 0.01 * 10_000


def test_a_sink_that_hangs_does_not_hold_the_decision_up():
    machine = Machine(added=0.0004)
    machine.hangs = True
    assert train(machine, 10_000).cost().interval == 5


def test_a_decision_stays_what_it_was_when_it_is_asked_for_later():
    machine = Machine(added=0.0004)
    pacer = train(machine, 1000)
    again = [s for s in range(1, 1001) if pacer.schedule.due(Moment(s))]
    assert again == machine.measured


def test_going_back_to_an_earlier_step_keeps_the_interval():
    machine = Machine(added=0.0004)
    pacer = train(machine, 1000)
    machine.steps = 100
    machine.measured.clear()
    train(machine, 100, pacer=pacer)
    assert machine.measured == list(range(105, 201, 5))


def test_another_model_is_learned_anew():
    machine = Machine(added=0.0)
    pacer = train(machine, 500)
    assert pacer.cost().interval == 1
    pacer.forget()
    cost = pacer.cost()
    assert cost.interval == 10
    assert math.isnan(cost.step_seconds)


def test_without_a_budget_it_only_keeps_account():
    machine = Machine(added=0.002)
    pacer = Pacer(None, machine.is_quiet, clock=lambda: machine.now)
    for step in range(1, 401):
        pacer.tick([Moment(step)], step % 4 == 0)
        machine.run(step % 4 == 0)
    cost = pacer.cost()
    assert cost.interval is None
    assert cost.budget is None
    assert cost.fraction == pytest.approx(0.002 / (4 * 0.01001), rel=1e-6)


def test_several_steps_at_once_count_as_many():
    machine = Machine()
    pacer = Pacer(0.01, clock=lambda: machine.now)
    for start in range(1, 2001, 4):
        moments = [Moment(s) for s in range(start, start + 4)]
        is_due = any(map(pacer.schedule.due, moments))
        pacer.tick(moments, is_due)
        machine.now += 0.04 + (0.0016 if is_due else 0.0)
    cost = pacer.cost()
    assert cost.step_seconds == pytest.approx(0.01)
    assert cost.interval == 20


def test_what_is_known_is_fit_for_json():
    fresh = Pacer(0.01).cost().facts()
    assert json.loads(json.dumps(fresh, allow_nan=False)) == fresh
    assert fresh["interval"] == 10
    assert fresh["fraction"] is fresh["added_seconds"] is fresh["step_seconds"] is None
    later = train(Machine(added=0.0004), 1000).cost().facts()
    spent = 0.0004 * later["measured_steps"]
    assert np.isclose(later["fraction"], spent / (1000 * 0.01001), rtol=0.01)


@pytest.mark.parametrize("budget", [0, -0.1, 1.5, float("nan")])
def test_a_budget_that_is_no_fraction_is_refused(budget):
    with pytest.raises(ValueError, match=f"budget={budget}"):
        Pacer(budget)


@pytest.mark.parametrize("budget", ["1%", True])
def test_a_budget_that_is_no_number_is_refused(budget):
    with pytest.raises(TypeError, match=f"budget={budget!r}"):
        Pacer(budget)


def test_the_steps_of_short_epochs_are_within_the_budget_after_the_first_ten():
    machine = Machine(step=0.01, added=0.05)
    pacer = Pacer(0.01, machine.is_quiet, clock=lambda: machine.now)
    seen = []
    for _ in range(400):
        train(machine, 40, per_epoch=40, pacer=pacer)
        step = machine.steps
        seen.append(pacer.epochs.due(Moment(step, stands_for_epoch=True)))
        # Asked again, it is the same.
        assert pacer.epochs.due(Moment(step, stands_for_epoch=True)) is seen[-1]
    assert all(seen[:10])
    rare = sum(seen[100:])
    assert 0 < rare * 3 * 0.05 <= 0.011 * 300 * 40 * machine.step


def test_each_of_the_long_epochs_has_its_step():
    machine = Machine(step=0.01, added=0.0001)
    pacer = Pacer(0.01, machine.is_quiet, clock=lambda: machine.now)
    for _ in range(40):
        train(machine, 400, per_epoch=400, pacer=pacer)
        assert pacer.epochs.due(Moment(machine.steps, stands_for_epoch=True))


def test_processes_that_follow_a_common_choice_have_a_step_in_each_epoch():
    machine = Machine(step=0.01, added=0.05)
    pacer = Pacer(0.01, machine.is_quiet, clock=lambda: machine.now)
    pacer.follow(lambda step: False)
    for _ in range(40):
        train(machine, 10, per_epoch=10, pacer=pacer)
        assert pacer.schedule.due(Moment(machine.steps, stands_for_epoch=True))
