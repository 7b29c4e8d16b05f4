"""Rules are asked more rarely in a long calm training, and at once when something happens."""

import math

import pytest

from gradwatch import Kind
from gradwatch.diagnosis import Diagnosis
from gradwatch.diagnosis.pace import Pace

from .support import falling, found, reading


def asked(pace: Pace, steps) -> list[int]:
    return [step for step in steps if pace.is_due(step)]


def test_all_of_the_first_steps_are_asked_about_and_later_every_10th():
    steps = asked(Pace(), range(1, 2001))
    assert steps[:32] == list(range(1, 33))
    assert all(later - step == 10 for step, later in zip(steps[-50:], steps[-49:], strict=False))


def test_what_is_measured_rarely_is_always_asked_about():
    rare = range(10, 10_000, 10)
    assert asked(Pace(), rare) == list(rare)


def test_after_a_sign_each_step_is_asked_about_again():
    pace = Pace()
    asked(pace, range(1, 1001))
    pace.alarm()
    assert asked(pace, range(1001, 1101))[:32] == list(range(1001, 1033))


def test_an_earlier_step_is_asked_about_at_once():
    pace = Pace()
    asked(pace, range(1, 1001))
    assert pace.is_due(7)


def paced() -> Diagnosis:
    diagnosis = Diagnosis()
    diagnosis.is_paced = True
    return diagnosis


def observed_at(steps, values=lambda step: [1.0, 2.0], loss=lambda step: 1.0 + 0.1 * (step % 3)):
    """The diagnosis of steps, and those about which its rules were asked."""
    diagnosis, at = paced(), []
    for step in steps:
        before = diagnosis.checks
        arrays = {(Kind.GRADIENT, "net/a/kernel"): [0.1, 0.2], (Kind.OUTPUT, "net/a"): values(step)}
        diagnosis.observe(reading(step, arrays, loss(step)))
        if diagnosis.checks > before:
            at.append(step)
    return diagnosis, at


def test_nan_is_found_in_its_own_step_however_long_all_was_well():
    for step in (901, 902, 903):
        diagnosis, _ = observed_at(
            range(1, 910), lambda s, bad=step: [math.nan if s >= bad else 1.0, 2.0]
        )
        assert found(diagnosis, "non-finite").detected == step


def test_a_loss_that_jumps_is_asked_about_in_its_own_step():
    for step in (901, 902, 903):
        _, at = observed_at(range(1, 910), loss=lambda s, bad=step: 50.0 if s == bad else 1.0)
        assert step in at
        assert at[-5:] == [905, 906, 907, 908, 909]


def test_infinity_that_is_always_there_is_no_sign_of_trouble():
    _, at = observed_at(range(1, 1001), lambda s: [-math.inf, 1.0])
    assert len(at) < 200


def test_what_was_not_asked_about_is_asked_about_at_the_end():
    diagnosis, at = observed_at(range(1, 1001))
    assert at[-1] < 1000
    before = diagnosis.checks
    diagnosis.observe_end()
    assert diagnosis.checks == before + 2


@pytest.mark.parametrize("every", [1, 3])
def test_losses_between_measurements_do_not_double_the_questions(every):
    diagnosis = paced()
    for step, loss in enumerate(falling(1000), 1):
        if step % every:
            diagnosis.observe_losses([(step, loss)])
        else:
            diagnosis.observe(reading(step, {(Kind.GRADIENT, "net/a/kernel"): [0.1]}, loss))
    assert diagnosis.checks < 250


@pytest.mark.parametrize("every", [10, 50])
def test_losses_between_measurements_do_not_take_their_turn(every):
    pace, asked_about = Pace(), []
    for step in range(1, 3001):
        if step % every == 0:
            # What is known of the losses before it is told first.
            pace.is_due(step - 1, is_measured=False)
            asked_about += [step] if pace.is_due(step) else []
    assert asked_about == list(range(every, 3001, every))
