"""Inputs and targets."""

import numpy as np
import pytest

from gradwatch import Kind

from ..support import FLAT, alarms, course, facts_of, falling, found, given, observed, rules_of

OUT = Kind.OUTPUT


@pytest.mark.parametrize(
    ("scale", "expected"), [(1e3, True), (1e-6, True), (1.0, False), (30.0, False)]
)
def test_inputs_of_a_wild_scale_are_said_while_the_loss_is_flat(scale, expected):
    x = scale * np.array([-1.0, 0.5, 1.3])
    assert ("input-scale" in rules_of(course(15, lambda s: given(x), FLAT))) == expected
    assert rules_of(course(15, lambda s: given(x), falling(15))) == []


def test_inputs_that_are_too_large_are_said_beside_a_nan():
    x = 1e3 * np.array([-1.0, 0.5, 1.3])
    readings = course(15, lambda s: given(x), [1.0, 1e30, *[np.nan] * 13])
    assert sorted(rules_of(readings)) == ["input-scale", "non-finite"]


def test_inputs_that_are_names_or_are_normalised_first_may_have_any_scale():
    words = np.array([3.0, 4000.0, 12.0])
    assert "input-scale" not in rules_of(course(15, lambda s: given(words), FLAT))
    facts = facts_of([("net/norm", "Normalization", None, 3), ("net/out", "Dense", None, 1)])
    x = 1e4 * np.array([-1.0, 0.5, 1.3])
    assert "input-scale" not in rules_of(course(15, lambda s: given(x), FLAT), facts)


def test_batches_of_one_class_each_are_not_shuffled():
    def batch(step):
        return given([1.0], [float(step // 4 % 3)] * 16)

    # At first every network forgets one class while it learns the next.
    sorted_data = observed(course(20, batch, falling(20)))
    assert (alarms(sorted_data), found(sorted_data, "unshuffled-data").severity) == ([], "info")
    forgetting = observed(course(60, batch, [2.0, 1.0, 1.0, 1.0] * 15))
    assert alarms(forgetting) == []
    forgetting.observe_end()
    assert "unshuffled-data" in alarms(forgetting)
    sorted_data.observe_end()
    assert alarms(sorted_data) == []
    # Most batches have none of a rare class.
    rare = course(60, lambda s: given([1.0], [0.0] * 15 + [float(s % 4 == 0)]), [3.0, 0.1] * 30)
    assert "unshuffled-data" not in rules_of(rare)
    mixed = course(20, lambda s: given([1.0], [0.0, 1.0] * 8), falling(20))
    assert rules_of(mixed) == []
    # Targets that are a formality are all the same.
    assert rules_of(course(20, lambda s: given([1.0], [0.0] * 16), falling(20))) == []


def test_samples_that_are_all_the_same_are_said():
    def batch(step, spread, y):
        arrays = {**given([1.0, 2.0], y), (OUT, "net/out"): [0.2, 0.4]}
        numbers = {"input_spread": spread, "batch_size": 16.0}
        return arrays | {(Kind.SCALAR, name): [value] for name, value in numbers.items()}

    mixed = [0.0, 1.0] * 8
    same = observed(course(8, lambda s: batch(s, 0.0, mixed), falling(8)))
    finding = found(same, "constant-output")
    assert (finding.title[:16], finding.since, finding.detected) == ("All samples of a", 1, 4)
    assert rules_of(course(8, lambda s: batch(s, 0.5, mixed), falling(8))) == []
    assert rules_of(course(8, lambda s: batch(s, 0.0, [1.0] * 16), falling(8))) == []


@pytest.mark.parametrize(("losses", "expected"), [(FLAT, True), (falling(120), False)])
def test_small_inputs_are_blamed_once_it_is_clear_that_nothing_is_learned(losses, expected):
    x = 2e-3 * np.array([-1.0, 0.5, 1.3])
    readings = course(120, lambda s: given(x), losses)
    assert ("input-scale" in rules_of(readings)) == expected
    assert "input-scale" not in rules_of(readings[:60])


def same_batches(steps, epochs, change=0.0):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 32))

    def at(step):
        return given(x + change * step, y > 0)

    diagnosis = observed(course(steps, at, falling(steps)), rules=["unshuffled-data"])
    for epoch in range(1, epochs + 1):
        last = epoch * steps // epochs
        diagnosis.observe_epoch(epoch, last, {"loss": 0.1})
    return [each.title for each in diagnosis.alarms]


def test_an_epoch_of_one_batch_again_and_again_is_said_but_not_a_batch_that_is_all_data():
    assert same_batches(30, 1) == ["All batches are the same: the model sees nothing else."]
    assert same_batches(30, 1, change=1e-6) == []
    # An epoch is a step, or it is not known what an epoch is.
    assert same_batches(30, 30) == []
    assert same_batches(30, 0) == []
