"""The rules at their edges, on made-up courses of training."""

import numpy as np
import pytest

from gradwatch import Kind, Site
from gradwatch.core import LossFacts, OptimizerFacts
from gradwatch.diagnosis import ModelFacts

from .support import alarms, course, facts_of, falling, found, observed, reading

G, W, U, OUT = Kind.GRADIENT, Kind.WEIGHT, Kind.UPDATE, Kind.OUTPUT
DEAD, SATURATED = Kind.DEAD_UNIT, Kind.SATURATED
FLAT = 2.0


def kernels(values, kind=G):
    return {(kind, f"net/{name}/kernel"): [value] for name, value in values.items()}


def rules_of(readings, facts=None, **options):
    return [f.rule for f in observed(readings, facts, **options).findings if not f.explained_by]


# Gradients.


def test_gradients_vanish_only_while_the_loss_is_flat():
    small = kernels({"a": 1e-5, "b": 1e-2, "c": 1.0})
    assert rules_of(course(20, lambda s: small, FLAT)) == ["vanishing-gradients"]
    assert rules_of(course(20, lambda s: small, falling(20))) == []


def test_small_gradients_of_late_layers_are_not_vanishing():
    assert rules_of(course(20, lambda s: kernels({"a": 1.0, "b": 1.0, "c": 1e-5}), FLAT)) == []


def test_a_gradient_that_reaches_an_earlier_layer_has_not_vanished():
    # An attention's queries and keys, beside the way of the gradient to the embedding.
    beside = {"queries": 1e-6, "keys": 1e-6, "values": 1e-2, "head": 1.0}
    arrays = {(G, "net/embedding/embeddings"): [0.5]} | kernels(beside)
    assert rules_of(course(20, lambda s: arrays, FLAT)) == []


def test_the_ends_of_a_way_on_which_gradients_vanish_are_two_layers():
    def title(values):
        diagnosis = observed(course(20, lambda s: kernels(values), FLAT))
        return found(diagnosis, "vanishing-gradients").title

    both = {"1/query": 1e-6, "2/query": 1e-5, "head": 1.0}
    assert title(both) == "Gradients vanish from net/2/query down to net/1/query."
    one = {"1/query": 1e-6, "2/query": 1e-1, "head": 1.0}
    assert title(one) == "Gradients vanish before they reach net/1/query."


def test_a_layer_whose_gradient_grows_from_zero_is_not_vanishing():
    growing = course(9, lambda s: kernels({"a": 1e-12 * 10**s, "b": 1.0}), FLAT)
    assert rules_of(growing) == []


def test_gradients_explode_when_they_leave_their_usual_range_thrice():
    def at(step, since):
        return kernels({"a": 500.0 if step >= since else 1.0, "b": 1.0})

    finding = found(observed(course(20, lambda s: at(s, 15), FLAT)), "exploding-gradients")
    assert (finding.since, finding.detected, finding.layer) == (15, 17, "net/a")
    np.testing.assert_allclose(finding.evidence["norm"], np.hypot(500, 1))
    np.testing.assert_allclose(finding.evidence["usual norm"], np.sqrt(2))
    twice = course(20, lambda s: at(s, 15) if s < 17 else at(0, 1), FLAT)
    assert rules_of(twice) == []


def test_zero_gradients_of_the_first_steps_and_of_biases_are_no_finding():
    def at(step):
        # Also with two layers that start at 0, one behind the other.
        kernel = 0.0 if step <= 3 else 1.0
        return kernels({"a": kernel, "b": 1.0}) | {(G, "net/a/bias"): [0.0]}

    assert rules_of(course(20, at, falling(20))) == []


def test_a_variable_the_loss_does_not_depend_on_is_counted_as_not_connected():
    arrays = kernels({"a": 1.0, "b": 1.0}) | {(G, "net/side/kernel"): []}
    finding = found(observed(course(8, lambda s: arrays, FLAT)), "zero-gradients")
    assert (finding.layer, finding.severity) == ("net/side", "warning")
    assert finding.evidence["not connected to the loss"] == 1


def test_a_layer_that_is_not_called_is_a_spare_part():
    arrays = kernels({"a": 1.0, "b": 1.0, "spare": 0.0}) | {(OUT, "net/a"): [1.0]}
    finding = found(observed(course(8, lambda s: arrays, FLAT)), "zero-gradients")
    assert (finding.layer, finding.severity) == ("net/spare", "info")
    both = arrays | kernels({"cut": 0.0}) | {(OUT, "net/cut"): [1.0]}
    finding = found(observed(course(8, lambda s: both, FLAT)), "zero-gradients")
    assert (finding.layer, finding.severity) == ("net/cut", "warning")
    # Under no_grad, the body of a network is not seen to be called.
    body = kernels({"one": 0.0, "two": 0.0, "head": 1.0}) | {(OUT, "net/head"): [1.0]}
    assert found(observed(course(8, lambda s: body, FLAT)), "zero-gradients").severity == "warning"


def test_zero_gradients_after_a_hinge_loss_has_learned_are_no_finding():
    losses = [*falling(60), *[0.0] * 20]
    readings = course(80, lambda s: kernels({"a": 1.0 if s < 60 else 0.0, "b": 0.0}), losses)
    assert "zero-gradients" not in [f.rule for f in observed(readings[55:]).findings if f.is_open]


def experts(step, given):
    """Gradients of a router and of four experts; `given` has those that get any."""
    paths = ["router/weight", *(f"experts/{i}/0/weight" for i in range(4))]
    sizes = [1.0, *(1.0 if i in given(step) else 0.0 for i in range(4))]
    return {(G, path): [size] for path, size in zip(paths, sizes, strict=True)} | {
        (W, path): [1.0] for path in paths
    }


@pytest.mark.parametrize(
    ("given", "losses", "expected"),
    [
        # Chosen at some steps only, or hardly ever, while the network learns.
        (lambda step: {0, 2} if step % 9 else {1, 3}, falling(90), []),
        (lambda step: {0, 1}, [2.3 - 0.005 * step for step in range(90)], []),
        (lambda step: {0, 1}, FLAT, ["zero-gradients"]),
        (lambda step: {0}, [2.3 - 0.005 * step for step in range(90)], ["zero-gradients"]),
    ],
)
def test_experts_that_nothing_is_given_to_are_blamed_if_little_is_learned(given, losses, expected):
    found_rules = rules_of(course(90, lambda step: experts(step, given), losses))
    assert [rule for rule in found_rules if rule == "zero-gradients"] == expected


def test_heads_that_learn_in_turns_get_gradients_in_turns():
    def at(step):
        return kernels({"body": 1.0, "one": float(step < 20), "two": 1.0})

    assert rules_of(course(60, at, [2.3 * 0.99**step for step in range(60)])) == []


# Units.


def units(share, values=256, count=10):
    """Outputs of a layer whose first units return 0, and of one before it."""
    dead = int(share * count)
    silent = values * dead // count
    return {
        (OUT, "net/in"): [-1.0, 1.0],
        (OUT, "net/relu"): [0.0] * silent + [1.0] * (values - silent),
        (DEAD, "net/in"): [0.0, 0.0],
        (DEAD, "net/relu"): [1.0] * dead + [0.0] * (count - dead),
    }


@pytest.mark.parametrize(
    ("share", "severity"), [(0.4, None), (0.6, "warning"), (0.9, "warning"), (1.0, "error")]
)
def test_dead_units_warn_above_half_and_fail_when_all_are(share, severity):
    def dead(diagnosis):
        return [f.severity for f in diagnosis.findings if f.rule == "dead-units"]

    expected = [] if severity is None else [severity]
    # Where some units are left, it may be a plateau.
    soon = observed(course(40, lambda s: units(share), FLAT))
    assert dead(soon) == (expected if share == 1.0 else [])
    assert dead(observed(course(150, lambda s: units(share), FLAT))) == expected


def test_partly_dead_layers_are_not_blamed_for_a_loss_that_is_only_noisy():
    def found_rules(noise):
        factors = np.random.default_rng(0).lognormal(0.0, noise, 200)
        losses = (factors * np.linspace(2.0, 1.95, 200)).tolist()
        return rules_of(course(200, lambda s: units(0.6), losses))

    assert "dead-units" in found_rules(0.05)
    assert "dead-units" not in found_rules(1.5)


def test_sparse_layers_of_a_network_that_learns_are_not_dead():
    assert rules_of(course(40, lambda s: units(0.9), falling(40))) == []


def test_units_that_were_silent_in_some_steps_only_are_not_dead():
    readings = course(40, lambda s: units(0.9 if s % 3 else 0.2), FLAT)
    assert "dead-units" not in rules_of(readings)


def test_saturation_counts_in_hidden_layers_while_the_loss_is_flat():
    arrays = {(OUT, "net/tanh"): [1.0], (SATURATED, "net/tanh"): [1.0, 1.0, 0.0],
              (OUT, "net/head"): [0.5, 0.4], (SATURATED, "net/head"): [1.0, 1.0]}  # fmt: skip
    finding = found(observed(course(15, lambda s: arrays, FLAT)), "saturated-activations")
    assert finding.layer == "net/tanh"
    np.testing.assert_allclose(finding.evidence["saturated share"], 2 / 3)
    assert rules_of(course(15, lambda s: arrays, falling(15))) == []


# Updates.


def updates(ratio):
    names = ("a", "b", "c", "d")
    return kernels(dict.fromkeys(names, 1.0), W) | kernels(dict.fromkeys(names, ratio), U)


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


# The loss.


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
        for epoch, loss in enumerate(losses, 1):
            logs = {"loss": 0.5**epoch, "val_loss": loss, "val_accuracy": accuracy}
            diagnosis.observe_epoch(epoch, 10 * epoch, logs)
        return alarms(diagnosis)

    much = [0.5, 0.4, 0.6, 0.7, 0.9, 1.1, 1.3, 1.5]
    assert of_validation(much, 0.7) == ["overfitting"]
    assert of_validation(much, 0.97) == []
    assert of_validation([0.1 * x for x in much], 0.7) == []


# The data.


def given(x, y=(0.0, 1.0)):
    return {(Kind.INPUT, "x"): x, (Kind.TARGET, "y"): list(y), **kernels({"a": 1.0})}


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


def test_a_loss_scale_that_collapses_is_said():
    facts = ModelFacts(precision="mixed_float16")
    diagnosis = observed([reading(1, kernels({"a": 1.0}), 1.0)], facts)
    for step in range(2, 40):
        diagnosis.observe_number("loss_scale", step, 2.0 ** (15 - step))
        diagnosis.observe(reading(step, kernels({"a": 1.0}), 1.0))
    finding = found(diagnosis, "underflow")
    assert finding.evidence["initial loss scale"] == 2.0**13
    assert finding.detected == 16


def test_underflow_is_measured_against_the_loss_scale():
    arrays = kernels({"a": 1e-6, "b": 1e-6})

    def diagnosed(scale):
        facts = ModelFacts(
            precision="mixed_float16", optimizer=OptimizerFacts("sgd", loss_scale=scale)
        )
        return rules_of(course(15, lambda s: arrays, FLAT), facts)

    assert diagnosed(None) == ["underflow"]
    assert diagnosed(2.0**15) == []


# The output.


def constant_course(inputs):
    """A model that returns one number, for targets that differ."""
    varied = np.random.default_rng(0).normal(size=(20, 8))

    def at(step):
        return {
            (Kind.INPUT, "input"): inputs(step),
            (OUT, "net/a"): varied[step - 1],
            (OUT, "net/b"): np.full(8, 0.5),
            (Kind.TARGET, "target"): varied[step - 1] > 0,
        }

    return course(20, at, FLAT)


def test_a_constant_output_is_blamed_on_the_inputs_if_these_are_constant():
    facts = facts_of([("net/a", "Dense", "relu", 4), ("net/b", "Dense", "sigmoid", 1)])
    for inputs in (lambda step: np.ones(8), lambda step: np.full(8, float(step))):
        finding = found(observed(constant_course(inputs), facts), "constant-output")
        assert finding.title.startswith("All inputs of a batch are the same: ")
        assert "activation" not in finding.remedy
        assert (finding.layer, finding.sites[0]) == ("", Site(Kind.INPUT, "input"))
    rng = np.random.default_rng(1)
    finding = found(
        observed(constant_course(lambda s: rng.normal(size=8)), facts), "constant-output"
    )
    assert finding.title == "The model returns 0.5 for every input."
    assert "Check that the samples of a batch differ" in finding.remedy


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


def test_evidence_that_is_not_known_yet_is_left_out():
    diagnosis = observed(course(6, lambda s: units(1.0), FLAT))
    assert "loss improvement" not in found(diagnosis, "dead-units").evidence
    later = observed(course(40, lambda s: units(1.0), FLAT))
    assert found(later, "dead-units").evidence["loss improvement"] == 0
