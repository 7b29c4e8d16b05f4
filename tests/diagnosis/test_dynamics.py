"""Rules about how weights and gradients develop."""

import numpy as np
import pytest

from gradwatch import Kind
from tests.diagnosis.support import alarms, course, falling, found, observed

MATRIX = np.ones((4, 4))


def shrinking(step, rate=0.9):
    return {(Kind.WEIGHT, f"{layer}/weight"): MATRIX * rate**step for layer in "ab"}


def test_weights_that_shrink_while_nothing_is_learned_are_found():
    diagnosis = observed(course(40, shrinking, 2.3), rules=["shrinking-weights"])
    finding = found(diagnosis, "shrinking-weights")
    assert (finding.since, finding.severity) == (1, "warning")
    assert finding.detected == 13


def test_weights_that_begin_to_shrink_on_the_way_are_found():
    losses = [*falling(30), *[2.3] * 40]
    readings = course(70, lambda step: shrinking(max(step - 30, 0)), losses)
    finding = found(observed(readings, rules=["shrinking-weights"]), "shrinking-weights")
    assert finding.since <= 30


@pytest.mark.parametrize(
    ("arrays", "losses"),
    [
        (shrinking, falling(40)),  # decay that works
        (lambda step: shrinking(step, 0.98), 2.3),
        (lambda step: shrinking(step, 1.02), 2.3),
        (lambda step: shrinking(step) | {(Kind.WEIGHT, "c/weight"): MATRIX}, 2.3),  # pruned
    ],
)
def test_weights_that_shrink_for_good_are_left_alone(arrays, losses):
    assert alarms(observed(course(40, arrays, losses), rules=["shrinking-weights"])) == []


def gradients(kept):
    return lambda step: {
        (Kind.GRADIENT, "a/weight"): MATRIX * step,
        (Kind.SCALAR, "kept_gradients"): [float(kept(step))],
    }


def test_gradients_that_are_kept_from_step_to_step_are_found():
    diagnosis = observed(course(20, gradients(lambda step: step > 1), 2.3))
    assert found(diagnosis, "kept-gradients").since == 2
    assert found(diagnosis, "kept-gradients").detected == 6


@pytest.mark.parametrize("kept", [lambda step: False, lambda step: step % 4 > 0])
def test_gradients_that_are_zeroed_now_and_then_are_left_alone(kept):
    assert alarms(observed(course(20, gradients(kept), 2.3), rules=["kept-gradients"])) == []


def test_kept_gradients_of_a_network_that_learns_are_no_alarm():
    diagnosis = observed(course(60, gradients(lambda step: step > 40), falling(60)))
    assert found(diagnosis, "kept-gradients").severity == "info"
