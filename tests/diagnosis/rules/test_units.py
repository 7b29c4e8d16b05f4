"""Units that are dead or saturated, and outputs that are constant."""

import numpy as np
import pytest

from gradwatch import Kind, Site

from ..support import FLAT, course, facts_of, falling, found, observed, rules_of

OUT = Kind.OUTPUT
DEAD, SATURATED = Kind.DEAD_UNIT, Kind.SATURATED


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


@pytest.mark.parametrize(("spread", "losses", "expected"), [
    (0.0, FLAT, ["constant-output"]), (1.0, FLAT, []), (0.0, falling(30), []),
])  # fmt: skip
def test_inputs_that_are_always_one_number_are_said_if_nothing_is_learned(spread, losses, expected):
    """Outputs for several places differ from place to place all the same."""
    rng = np.random.default_rng(2)

    def at(step):
        return {
            (Kind.INPUT, "input"): spread * rng.normal(size=8) + 0.5,
            (OUT, "net/b"): [0.1, 0.2, 0.3],
            (Kind.TARGET, "target"): rng.normal(size=12),
        }

    diagnosis = observed(course(30, at, losses), facts_of([("net/b", "Linear", None, 3)]))
    assert [f.rule for f in diagnosis.findings if f.rule == "constant-output"] == expected
    if expected:
        title = "All inputs of a batch are the same: 0.5."
        assert found(diagnosis, "constant-output").title == title


def test_evidence_that_is_not_known_yet_is_left_out():
    diagnosis = observed(course(6, lambda s: units(1.0), FLAT))
    assert "loss improvement" not in found(diagnosis, "dead-units").evidence
    later = observed(course(40, lambda s: units(1.0), FLAT))
    assert found(later, "dead-units").evidence["loss improvement"] == 0
