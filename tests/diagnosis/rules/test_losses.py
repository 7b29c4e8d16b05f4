"""The course of the loss."""

import numpy as np
import pytest

from gradwatch import Kind
from gradwatch.core import LossFacts
from gradwatch.diagnosis import ModelFacts

from ..support import (
    alarms,
    course,
    facts_of,
    falling,
    found,
    given,
    kernels,
    observed,
    reading,
    rules_of,
    updates,
)


def test_the_losses_of_adversaries_need_not_fall():
    def step(number):
        return reading(number, kernels({"a": 1.0}), [1.0, 6.0][number % 2], group="critic")

    assert rules_of([step(number) for number in range(1, 120)]) == []


def test_huge_updates_of_an_adversary_are_too_large_whatever_its_loss():
    def step(number, ratio):
        return reading(number, updates(ratio), 1.0, group="generator")

    assert "learning-rate-too-high" in rules_of([step(i, 0.6) for i in range(1, 15)])
    assert rules_of([step(i, 0.6 if i < 4 else 0.02) for i in range(1, 40)]) == []


def test_a_loss_that_has_jumped_after_it_had_fallen_is_not_where_it_started():
    losses = [*falling(120), *[2.3 - 0.01 * step for step in range(30)]]
    assert "loss-not-falling" not in rules_of(with_losses(losses))
    assert "loss-oscillating" not in rules_of(with_losses(losses))


def with_losses(losses):
    return course(len(losses), lambda s: kernels({"a": 1.0}), losses)


def test_a_loss_that_stays_where_it_was_is_said_after_a_while():
    rng = np.random.default_rng(1)
    noise = (2.0 + 0.05 * rng.standard_normal(340)).tolist()
    finding = found(observed(with_losses(noise)), "loss-not-falling")
    assert 300 <= finding.detected < 340
    plateau = [*noise[:200], *falling(80, 2.0)]
    assert rules_of(with_losses(plateau)) == []
    assert rules_of(with_losses(falling(100))) == []


def test_a_loss_at_the_level_of_knowing_nothing_has_made_no_progress():
    facts = facts_of([("net/out", "Dense", "softmax", 10)], "sparse_categorical_crossentropy")
    losses = [3.0, 2.8, 2.6, 2.4, *[float(np.log(10))] * 300]
    finding = found(observed(with_losses(losses), facts), "loss-not-falling")
    np.testing.assert_allclose(finding.evidence["loss of the best constant guess"], np.log(10))


def test_a_converged_run_that_goes_on_is_no_finding():
    losses = [*falling(60), *[0.1] * 200]
    assert rules_of(with_losses(losses)) == []


def test_a_resumed_run_may_stay_where_it_is():
    readings = [reading(s, kernels({"a": 1.0}), 0.3) for s in range(1000, 1200)]
    assert rules_of(readings) == []


def test_a_loss_that_swings_without_falling_is_oscillating():
    facts = ModelFacts(batch_size=32)
    swinging = with_losses([1.0, 6.0] * 20)
    assert rules_of(swinging, facts) == ["loss-oscillating"]
    calm = with_losses([1.0, 1.3] * 20)
    assert "loss-oscillating" not in rules_of(calm, facts)


def test_weights_that_start_tiny_take_large_steps_for_a_while():
    def growing(step):
        sizes = {"a": (0.1, 1e-3), "b": (1e-4 * step, 1e-4), "c": (1e-4 * step, 1e-4)}
        return {
            **{(Kind.WEIGHT, f"{n}/kernel"): np.full((30, 30), w) for n, (w, _) in sizes.items()},
            **{(Kind.UPDATE, f"{n}/kernel"): np.full((30, 30), u) for n, (_, u) in sizes.items()},
        }

    def large(step):
        return {
            **{(Kind.WEIGHT, f"{n}/kernel"): np.full((30, 30), 0.1) for n in "abc"},
            **{(Kind.UPDATE, f"{n}/kernel"): np.full((30, 30), 0.03) for n in "abc"},
        }

    assert "learning-rate-too-high" not in rules_of(course(8, growing, 1.0))
    flat = (1.0 + 0.01 * np.random.default_rng(0).standard_normal(60)).tolist()
    assert "learning-rate-too-high" not in rules_of(course(60, growing, flat))
    assert "learning-rate-too-high" in rules_of(course(60, large, flat))


def test_a_loss_that_falls_ever_faster_below_0_has_no_bound_whatever_its_main_term_is():
    steps = np.arange(120)
    facts = ModelFacts(
        loss=LossFacts("mean_squared_error", reduction="other", is_nonnegative=False)
    )
    falls = (100.0 - 1e-4 * steps**4.0).tolist()
    assert "negative-loss" in rules_of(with_losses(falls), facts)
    # That of a density falls ever slower.
    likelihood = (100.0 - 2000.0 * np.log1p(steps)).tolist()
    assert "negative-loss" not in rules_of(with_losses(likelihood), facts)


def test_a_noisy_loss_is_not_oscillating_while_it_may_still_learn():
    facts = ModelFacts(batch_size=32)
    rng = np.random.default_rng(0)
    noisy = np.exp(rng.normal(0.0, 1.0, 200)).tolist()
    assert "loss-oscillating" not in rules_of(with_losses(noisy[:100]), facts)
    assert "loss-oscillating" in rules_of(with_losses(noisy), facts)
    # A constant guess finds the same batches hard.
    guesses = course(
        200,
        lambda s: {**kernels({"a": 1.0}), (Kind.SCALAR, "constant_loss"): [1.1 * noisy[s - 1]]},
        noisy,
    )
    assert "loss-oscillating" not in rules_of(guesses, facts)


def test_the_loss_of_batches_that_differ_may_swing_at_first():
    facts = ModelFacts(batch_size=32)
    seasons = course(
        30, lambda s: given([1.0], [5.0 * np.sin(s), 5.0 * np.sin(s) + 0.1]), [1.0, 6.0] * 15
    )
    assert "loss-oscillating" not in rules_of(seasons, facts)
    # Of few samples, several losses are one.
    assert "loss-oscillating" not in rules_of(
        with_losses([1.0, 6.0] * 40), ModelFacts(batch_size=1)
    )


def test_a_loss_that_grows_is_diverging_and_explains_its_swings():
    losses = [1.0] * 10 + [1.3**s for s in range(30)]
    finding = found(observed(with_losses(losses)), "loss-diverging")
    assert finding.evidence["initial loss"] == 1.0
    assert finding.detected <= 20
    # One bad batch is nothing.
    assert rules_of(with_losses([1.0] * 20 + [50.0] + [0.9] * 20)) == []


def test_terms_that_cancel_out_at_the_start_do_not_diverge_when_they_grow():
    swing = [0.05, 0.1, -0.2, 0.0, 0.1, *(1.3 * np.sin(np.arange(60) / 6.0)).tolist()]
    terms = ModelFacts(
        loss=LossFacts("mean_squared_error", reduction="other", is_nonnegative=False, rest="terms")
    )
    assert "loss-diverging" not in rules_of(with_losses(swing), terms)
    assert "loss-diverging" not in rules_of(with_losses(swing))
    grows = [*swing[:5], *[0.1 * 1.5**s for s in range(40)]]
    for facts in (terms, None):
        assert found(observed(with_losses(grows), facts), "loss-diverging").detected < 35


@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_a_loss_that_rises_because_the_targets_spread_more_does_not_diverge(spread):
    def at(step):
        return {(Kind.SCALAR, "constant_loss"): [0.1 if step <= 40 else spread]}

    losses = [0.08] * 40 + [2.0] * 10
    facts = facts_of([("net/out", "Dense", "linear", 1)], "mean_squared_error")
    found_rules = {f.rule for f in observed(course(50, at, losses), facts).findings}
    assert ("loss-diverging" in found_rules) == (spread < 2.0)


def test_a_loss_that_cannot_be_negative_and_is():
    facts = facts_of([("net/out", "Dense", "sigmoid", 1)], "binary_crossentropy")
    below = [0.7, 0.3, -0.2, -0.9, -2.0]
    finding = found(observed(with_losses(below), facts), "negative-loss")
    assert (finding.since, finding.severity) == (3, "error")
    assert rules_of(with_losses(below)) == []
    rounding = [0.7, 0.1, *[-1e-8] * 20]
    assert rules_of(with_losses(rounding), facts) == []


def test_a_loss_below_0_that_drives_outputs_away_from_the_targets_has_the_wrong_sign():
    losses = [-1.0 - 0.1 * step for step in range(40)]

    def agreeing(correlation):
        def step(number):
            other = {(Kind.SCALAR, "agreement"): [correlation(number)]}
            return reading(number, kernels({"a": 1.0}) | other, losses[number - 1])

        return rules_of([step(number) for number in range(1, 41)])

    assert agreeing(lambda step: -0.02 * step) == ["negative-loss"]
    assert agreeing(lambda step: 0.02 * step) == []
    assert agreeing(lambda step: 0.05 * np.sin(step)) == []


def epochs(values):
    diagnosis = observed([reading(1, kernels({"a": 1.0}), 1.0)])
    for epoch, (loss, validation) in enumerate(values, start=1):
        diagnosis.observe_epoch(epoch, 10 * epoch, {"loss": loss, "val_loss": validation})
    return diagnosis


def test_overfitting_is_said_with_the_best_epochs_step():
    train = [1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05]
    validation = [1.1, 0.9, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4]
    diagnosis = epochs(zip(train, validation, strict=True))
    finding = found(diagnosis, "overfitting")
    assert (finding.since, finding.evidence["best validation loss"]) == (30, 0.8)
    # Both fall; or validation swings; or both rise.
    assert alarms(epochs(zip(train, [1.1 * x for x in train], strict=True))) == []
    swings = [1.1, 0.9, 0.8, 0.9, 0.8, 0.9, 0.8, 0.9, 0.8]
    assert alarms(epochs(zip(train, swings, strict=True))) == []
    assert alarms(epochs(zip(validation, validation, strict=True))) == []
    # The training loss has not fallen since: the data changes, say.
    assert alarms(epochs(zip([0.5] * 9, validation, strict=True))) == []


def test_a_classifier_that_is_only_too_sure_of_itself_is_not_said_to_overfit():
    facts = facts_of([("net/out", "Dense", "softmax", 2)], "sparse_categorical_crossentropy")

    def of_validation(losses, accuracy):
        diagnosis = observed([reading(1, given([1.0], [0.0, 1.0] * 8), 1.0)], facts)
        scores = accuracy if isinstance(accuracy, list) else [accuracy] * len(losses)
        for epoch, (loss, score) in enumerate(zip(losses, scores, strict=True), 1):
            logs = {"loss": 0.5**epoch, "val_loss": loss, "val_accuracy": score}
            diagnosis.observe_epoch(epoch, 10 * epoch, logs)
        return alarms(diagnosis)

    much = [0.5, 0.4, 0.6, 0.7, 0.9, 1.1, 1.3, 1.5]
    assert of_validation(much, 0.7) == ["overfitting"]
    assert of_validation(much, 0.97) == []
    assert of_validation([0.1 * x for x in much], 0.7) == []
    # It is as often right as at its best, or no longer is.
    assert of_validation(much, [0.8, 0.87, 0.89, 0.88, 0.87, 0.86, 0.83, 0.87]) == []
    assert of_validation(much, [0.8, 0.87, 0.89, 0.85, 0.8, 0.8, 0.77, 0.75]) == ["overfitting"]


@pytest.mark.parametrize(("ratio", "severity"), [(1e-3, "info"), (0.03, "warning")])
def test_a_loss_of_unknown_meaning_that_swings_is_an_alarm_if_the_steps_are_large(ratio, severity):
    facts = ModelFacts(batch_size=32)
    readings = course(40, lambda s: updates(ratio), [1.0, 6.0] * 20)
    finding = found(observed(readings, facts), "loss-oscillating")
    assert finding.severity == severity


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (lambda step: 1.0 - 0.05 * step, ["negative-loss"]),
        # It is learned from data: more slowly, or with noise.
        (lambda step: 1.0 - 6.0 * (1.0 - 0.98**step), []),
        (lambda step: 1.0 - 0.05 * step + 0.5 * (-1) ** step, []),
    ],
)
def test_a_loss_that_falls_below_0_in_a_straight_line_to_the_end_has_no_bound(at, expected):
    losses = [at(step) for step in range(200)]
    diagnosis = observed(with_losses(losses), rules=["negative-loss"])
    assert alarms(diagnosis) == []
    diagnosis.observe_end()
    assert alarms(diagnosis) == expected
