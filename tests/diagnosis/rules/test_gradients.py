"""Gradients that vanish, explode, are 0 or are not given to experts."""

import numpy as np
import pytest

from gradwatch import Kind
from gradwatch.core import OptimizerFacts
from gradwatch.diagnosis import ModelFacts

from ..support import FLAT, course, facts_of, falling, found, kernels, observed, reading, rules_of

G, W, OUT = Kind.GRADIENT, Kind.WEIGHT, Kind.OUTPUT


def test_gradients_vanish_only_while_the_loss_is_flat():
    small = kernels({"a": 1e-5, "b": 1e-2, "c": 1.0})
    assert rules_of(course(20, lambda s: small, FLAT)) == ["vanishing-gradients"]
    assert rules_of(course(20, lambda s: small, falling(20))) == []


def test_gradients_that_come_near_to_the_limit_now_and_then_have_not_vanished():
    def at(step):
        return kernels({"a": 3e-3 if step % 9 == 5 else 2e-4, "b": 1e-2, "c": 1.0})

    assert rules_of(course(30, at, FLAT)) == []


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
    assert found(observed(course(8, lambda s: body, FLAT)), "zero-gradients").severity == "error"


@pytest.mark.parametrize(
    ("units", "bias", "losses", "severity"),
    [
        (1, 0.0, falling(70), "info"),
        (1, 0.0, FLAT, "warning"),
        # A gradient that reaches the bias alone, or several units, is no softmax over one.
        (1, 0.5, falling(70), "warning"),
        (2, 0.0, falling(70), "warning"),
    ],
)
def test_a_head_of_one_unit_beside_others_may_get_no_gradient(units, bias, losses, severity):
    facts = facts_of([("net/a", "Linear", None, 8), ("net/shares", "Linear", None, units),
                      ("net/means", "Linear", None, 1)])  # fmt: skip
    arrays = kernels({"a": 1.0, "shares": 0.0, "means": 1.0}) | {(G, "net/shares/bias"): [bias]}
    readings = course(70, lambda s: arrays, losses)
    diagnosis = observed(readings if losses is FLAT else readings[:5], facts)
    worst = next(each for each in diagnosis.findings if each.rule == "zero-gradients")
    assert worst.severity == severity


@pytest.mark.parametrize(("never", "expected"), [(True, ["zero-gradients"]), (False, [])])
def test_a_policy_that_never_gets_a_gradient_is_told_from_one_whose_rewards_are_the_same(
    never, expected
):
    """Losses of policies are signed, and beside the critic nothing tells what is learned."""

    def arrays(step):
        policy = 0.0 if never or step > 9 else 1.0
        return kernels({"policy": policy, "critic": 1.0})

    losses = [0.1 * (-1) ** step for step in range(70)]
    assert rules_of(course(70, arrays, losses)) == expected
    assert rules_of(course(50, arrays, losses)) == []


@pytest.mark.parametrize(("size", "wanted"), [(2, "info"), (400, "warning")])
def test_a_few_numbers_that_no_loss_comes_from_are_spare(size, wanted):
    """Weights of losses, which a module holds itself; a matrix that it holds should learn."""
    facts = facts_of([(f"net/{name}", "Linear", None, 8) for name in "abc"])

    def arrays(step):
        weights = {"net/a/weight": np.ones(400) + 0.1 * step, "net/b/weight": np.full(400, 0.5)}
        gradients = {"net/a/weight": [0.5, 0.1], "net/b/weight": [0.2, 0.1], "own": []}
        weights["own"] = np.linspace(-1.0, 1.0, size)
        return {(W, path): x for path, x in weights.items()} | {
            (G, path): x for path, x in gradients.items()
        }

    diagnosis = observed(course(12, arrays, falling(12)), facts)
    [finding] = [each for each in diagnosis.findings if each.rule == "zero-gradients"]
    assert finding.severity == wanted


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
