"""Updates that are too large, too small, or none."""

from dataclasses import replace

import numpy as np
import pytest

from gradwatch import Kind
from gradwatch.core import ParameterFacts

from ..support import FLAT, course, facts_of, falling, found, kernels, observed, rules_of, updates

G, W, U = Kind.GRADIENT, Kind.WEIGHT, Kind.UPDATE


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (0.0, ["stalled-weights"]),
        (1e-7, ["stalled-weights"]),
        (5e-6, ["learning-rate-too-low"]),
        (1e-3, []),
        (0.3, ["learning-rate-too-high"]),
    ],
)
def test_the_ratio_of_update_to_weight_is_judged_while_the_loss_is_flat(ratio, expected):
    assert rules_of(course(40, lambda s: updates(ratio), FLAT)) == expected


def test_weights_that_move_between_the_measured_steps_do_not_stall():
    """A loop that leaves out some steps, and just those that are measured."""

    def at(step, moves):
        size = 1.0 + 0.01 * step * moves
        names = ("a", "b", "c")
        return (
            kernels(dict.fromkeys(names, size), W)
            | kernels(dict.fromkeys(names, 0.0), U)
            | {(G, f"net/{name}/kernel"): [] for name in names}
        )

    assert rules_of(course(40, lambda s: at(s, 0.0), FLAT)) == ["zero-gradients"]
    assert rules_of(course(40, lambda s: at(s, 1.0), FLAT)) == []


@pytest.mark.parametrize("ratio", [1e-3, 0.3])
def test_the_size_of_updates_does_not_matter_while_the_loss_falls(ratio):
    assert rules_of(course(40, lambda s: updates(ratio), falling(40))) == []


def test_a_signed_loss_that_means_nothing_is_not_flat_after_large_first_updates():
    # That of a policy: the first updates of an adaptive optimizer are large.
    losses = (-0.2 + 0.2 * np.random.default_rng(0).standard_normal(60)).tolist()
    assert rules_of(course(60, lambda s: updates(0.2 if s < 5 else 0.02), losses)) == []
    assert "learning-rate-too-high" in rules_of(course(60, lambda s: updates(0.2), losses))


def test_large_updates_after_a_jump_of_the_loss_are_what_comes_of_it():
    noise = 0.01 * np.random.default_rng(0).standard_normal(90)
    jump = [*[3.0, 3.0, 2.5, 2.5, 2.3, 2.3], *[2.3] * 24]
    losses = (np.array([*falling(60), *jump]) + noise).tolist()

    def found_with(first):
        readings = course(90, lambda s: updates(0.2 if s >= first else 0.01), losses)
        return "learning-rate-too-high" in rules_of(readings)

    assert not found_with(62)
    assert found_with(58)


def test_a_matrix_that_starts_at_zero_does_not_make_the_rate_too_high():
    def at(step):
        # Of an adapter: one of its two matrices starts at 0 and grows.
        return (
            kernels({"a": 1.0, "b": 0.1 * step}, W)
            | kernels({"a": 0.01, "b": 0.1}, U)
            | kernels({"a": 1.0, "b": 1.0})
        )

    assert "learning-rate-too-high" not in rules_of(course(30, at, FLAT))


def test_a_warm_up_is_neither_stalled_nor_too_slow():
    readings = course(40, lambda s: updates(1e-7 * 1.15**s), FLAT)
    assert rules_of(readings) == []
    # A linear one, of which the steps differ less and less.
    assert rules_of(course(55, lambda s: updates(1e-8 * s), FLAT)) == []


def test_frozen_layers_are_not_stalled_but_blamed_when_nothing_is_learned():
    arrays = kernels({"a": 1.0, "b": 1.0}, W) | kernels({"b": 1e-3}, U) | kernels({"b": 1.0})
    arrays[W, "net/a/kernel"] = [1.0] * 100
    assert rules_of(course(40, lambda s: arrays, falling(40))) == []
    finding = found(observed(course(70, lambda s: arrays, FLAT)), "stalled-weights")
    assert "frozen" in finding.title
    np.testing.assert_allclose(finding.evidence["frozen share"], 100 / 101)


def test_a_policy_whose_rewards_are_all_the_same_is_done():
    def at(step):
        size = 1.0 if step < 30 else 0.0
        return kernels({"a": size}) | kernels({"a": 1e-2 * size + 1e-9}, U) | kernels({"a": 1.0}, W)

    losses = [*[(-1) ** step * 0.3 for step in range(30)], *[0.0] * 170]
    assert rules_of(course(200, at, losses)) == []


def test_matrices_that_are_all_frozen_on_the_way_are_said():
    def at(step):
        trained = {} if step > 10 else kernels({"a": 1.0, "b": 1.0})
        return kernels({"a": 1.0, "b": 1.0}, W) | trained | {(G, "net/b/bias"): [1.0]}

    finding = found(observed(course(30, at, falling(30))), "stalled-weights")
    assert (finding.since, finding.detected, "frozen" in finding.title) == (11, 15, True)


def test_one_layer_that_dwarfs_the_others_is_named():
    arrays = kernels(dict.fromkeys("abcd", 1.0), W) | kernels(
        {"a": 1e-5, "b": 2e-5, "c": 0.5, "d": 1e-5}, U
    )
    finding = found(observed(course(20, lambda s: arrays, FLAT)), "imbalance")
    assert finding.layer == "net/c"
    np.testing.assert_allclose(finding.evidence["update ratio"], 0.5)


def test_a_bias_that_learns_beside_a_dead_matrix_is_not_said_to_stand_still():
    def at(step, gradient=0.0):
        zero = {"a": 0.0, "b": 0.0}
        arrays = kernels(dict.fromkeys(zero, gradient)) | kernels(zero, U)
        arrays |= kernels({"a": 1.0, "b": 1.0}, W)
        bias = {(G, "net/b/bias"): [0.5], (U, "net/b/bias"): [0.1], (W, "net/b/bias"): [step]}
        return arrays | bias

    assert [f.title for f in observed(course(40, at, FLAT)).findings] == [
        "No gradient reaches the weight matrices of net/a and 1 more layer."
    ]
    stalled = course(40, lambda s: at(s, 1.0), FLAT)
    assert found(observed(stalled), "stalled-weights").title == (
        "All weight matrices do not change although they are trainable."
    )
    without_updates = course(40, lambda s: {k: v for k, v in at(s, 1.0).items() if k[0] != U}, FLAT)
    assert "All weight matrices" in found(observed(without_updates), "stalled-weights").title


def test_a_learning_rate_that_decays_before_anything_is_learned_is_said():
    rng = np.random.default_rng(4)
    facts = facts_of([("net/a", "Dense", "softmax", 10)], "sparse_categorical_crossentropy")

    def decayed(since, level):
        losses = level + 0.02 * rng.standard_normal(60)
        losses[:5] += 0.4

        def arrays(step):
            rate = 0.1 if step < since else 1e-6
            moves = {(U, "net/a/kernel"): [0.1 * rate], (W, "net/a/kernel"): [1.0]}
            return {**moves, (Kind.SCALAR, "learning_rate"): [rate]}

        return rules_of(course(60, arrays, losses.tolist()), facts)

    assert "learning-rate-too-low" in decayed(12, 2.2)
    # What was learned stays; and schedules end with the run.
    assert decayed(12, 0.5) == []
    assert "learning-rate-too-low" not in decayed(50, 2.2)


def test_weights_that_stop_in_mid_training_are_said_whatever_the_loss_has_reached():
    rng = np.random.default_rng(2)
    losses = [*(2.6 - 0.08 * np.arange(6)), *(2.15 + 0.03 * rng.standard_normal(60))]
    facts = facts_of([("net/a", "Dense", "softmax", 10)], "sparse_categorical_crossentropy")

    def course_until(last, is_learning):
        def arrays(step):
            moves = step <= 6 or is_learning(step)
            weight = {(W, "net/a/kernel"): [1.0 + (0.01 * step if moves else 0.06)]}
            return {**weight, (U, "net/a/kernel"): [0.01 * moves]}

        return rules_of(course(last, arrays, losses[:last]), facts)

    assert course_until(66, lambda step: False) == ["stalled-weights"]
    assert course_until(25, lambda step: False) == []
    # Gradients are accumulated.
    assert course_until(66, lambda step: step % 16 == 0) == []


def blown_up(size, losses):
    """All weights are as large as their first update; the loss says nothing afterwards."""

    def at(step):
        names = ("a", "b", "c")
        moved = size if step == 1 else 1e-4 * size
        sizes = kernels(dict.fromkeys(names, size), W)
        return {**sizes, **kernels(dict.fromkeys(names, moved), U)}

    return observed(course(12, at, losses), rules=["learning-rate-too-high"])


def test_steps_that_replace_all_weights_by_huge_ones_are_too_large_whatever_the_loss():
    finding = found(blown_up(1000.0, [0.02, *[0.0] * 11]), "learning-rate-too-high")
    assert (finding.severity, finding.since, finding.detected) == ("error", 1, 1)
    # So do the first steps from zero, of the usual size.
    assert blown_up(0.01, [0.02, *[0.0] * 11]).findings == []


@pytest.mark.parametrize(
    ("is_own", "moves", "gradients", "expected"),
    [
        (True, 0.0, {}, ["stalled-weights"]),
        (True, 1e-3, {}, []),
        # Another loop may measure weights only, and optimizers may have been given gradients.
        (False, 0.0, {}, []),
        (True, 0.0, {(Kind.GRADIENT, "net/a/kernel"): [1.0]}, None),
    ],
)
def test_a_step_that_gives_its_gradients_to_no_optimizer_is_said(
    is_own, moves, gradients, expected
):
    facts = facts_of([("net/a", "Dense", None, 4)], parameters=ParameterFacts(20, 20))
    facts = replace(facts, loss=replace(facts.loss, is_of_own_step=is_own))

    def at(step):
        return kernels({"a": 1.0 + moves * step}, Kind.WEIGHT) | gradients

    diagnosis = observed(course(40, at, FLAT), facts)
    titles = [each.title for each in diagnosis.findings if each.rule == "stalled-weights"]
    is_said = any("gives its gradients to no optimizer" in title for title in titles)
    assert is_said == (expected == ["stalled-weights"])
    if is_said:
        finding = found(diagnosis, "stalled-weights")
        assert (finding.severity, finding.since, finding.layer) == ("error", 1, "net/a")
