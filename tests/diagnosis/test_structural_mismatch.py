"""Last layer, loss and labels: what goes together, and what does not."""

import numpy as np
import pytest

from gradwatch import Kind
from gradwatch.core import LayerFacts, LossFacts
from gradwatch.diagnosis import ModelFacts

from .support import alarms, facts_of, found, observed, reading

SPARSE, CATEGORICAL = "sparse_categorical_crossentropy", "categorical_crossentropy"
BINARY, SQUARES = "binary_crossentropy", "mean_squared_error"


def diagnosed(activation, units, loss, targets, outputs=None, from_logits=False, whole=None):
    facts = facts_of(
        [("net/hidden", "Dense", "relu", 8), ("net/out", "Dense", activation, units)],
        loss,
        from_logits=from_logits,
        targets_are_whole=whole,
    )
    arrays = {(Kind.TARGET, "y"): targets}
    if outputs is not None:
        arrays[Kind.OUTPUT, "net/out"] = outputs
    return observed([reading(1, arrays, 1.0), reading(2, arrays, 1.0)], facts)


ONE_HOT = np.eye(3)[[0, 1, 2, 1]]


@pytest.mark.parametrize(
    ("activation", "units", "loss", "targets", "outputs", "from_logits"),
    [
        ("softmax", 3, SPARSE, [0, 1, 2], [0.1, 0.9], False),
        ("linear", 3, SPARSE, [0, 1, 2], [-4.0, 9.0], True),
        ("softmax", 3, CATEGORICAL, ONE_HOT, [0.1, 0.9], False),
        ("sigmoid", 1, BINARY, [0, 1, 1], [0.1, 0.9], False),
        ("linear", 1, BINARY, [0, 1, 1], [-3.0, 5.0], True),
        # In torch, the output of the layer is that before its activation.
        ("sigmoid", 1, BINARY, [0, 1, 1], [-3.0, 5.0], False),
        # Several labels at once, and soft ones.
        ("sigmoid", 3, BINARY, [[1, 1, 0], [0, 1, 1]], [0.1, 0.9], False),
        ("softmax", 3, CATEGORICAL, 0.9 * ONE_HOT + 0.1 / 3, [0.1, 0.9], False),
        ("softmax", 2, BINARY, [[1, 0], [0, 1]], [0.1, 0.9], False),
        ("linear", 1, SQUARES, [-100.0, 250.0], [0.0, 3.0], None),
        ("sigmoid", 64, SQUARES, [0.0, 1.0], [0.2, 0.8], None),
        ("tanh", 1, SQUARES, [-1.0, 1.0], [0.2, 0.8], None),
        ("relu", 1, SQUARES, [0.0, 250.0], [0.2, 0.8], None),
        # Some noise just below 0.
        ("softplus", 1, SQUARES, [-0.5, 250.0], [0.2, 0.8], None),
        ("linear", 1, "poisson", [0.0, 3.0], [0.2, 0.8], None),
        ("softmax", 3, "own_loss", [-5.0, 9.0], [0.1, 0.9], None),
    ],
)
def test_what_goes_together_is_no_finding(activation, units, loss, targets, outputs, from_logits):
    assert diagnosed(activation, units, loss, targets, outputs, from_logits).findings == []


@pytest.mark.parametrize(
    ("activation", "units", "loss", "targets", "outputs", "from_logits", "words"),
    [
        ("softmax", 1, BINARY, [0, 1], [1.0, 1.0], False, "Softmax over one unit"),
        ("sigmoid", 1, CATEGORICAL, [0, 1], [0.3, 0.6], False, "one output unit"),
        ("softmax", 3, SPARSE, [1, 2, 3], [0.3, 0.6], False, "from 1 to 3"),
        ("softmax", 3, SPARSE, [-1, 2], [0.3, 0.6], False, "from -1 to 2"),
        ("sigmoid", 1, BINARY, [-1, 1], [0.3, 0.6], False, "between 0 and 1"),
        ("sigmoid", 1, BINARY, [0, 7], [0.3, 0.6], False, "between 0 and 1"),
        ("softmax", 3, CATEGORICAL, [[1, 1, 0], [0, 1, 1]], [0.3, 0.6], False, "add up to 2"),
        ("linear", 3, SPARSE, [0, 1, 2], [-4.0, 9.0], False, "expects probabilities"),
        ("linear", 3, SPARSE, [0, 1, 2], None, False, "expects probabilities"),
        ("linear", 1, BINARY, [0, 1], [-4.0, 9.0], False, "expects probabilities"),
        ("tanh", 1, BINARY, [0, 1], [-0.4, 0.9], False, "expects probabilities"),
        ("softmax", 3, SPARSE, [0, 1, 2], [0.3, 0.6], True, "expects logits"),
        ("sigmoid", 1, BINARY, [0, 1], [0.3, 0.6], True, "expects logits"),
        ("sigmoid", 1, SQUARES, [-20.0, 30.0], [0.3, 0.6], None, "from 0 to 1"),
        ("tanh", 1, SQUARES, [0.0, 30.0], [0.3, 0.6], None, "from -1 to 1"),
        ("relu", 1, SQUARES, [-2.0, 2.0], [0.0, 0.6], None, "at least 0"),
        ("linear", 1, "poisson", [-2.0, 2.0], [0.3, 0.6], None, "at least 0"),
    ],
)
def test_what_does_not_go_together_is_said_at_once_and_in_words(
    activation, units, loss, targets, outputs, from_logits, words
):
    diagnosis = diagnosed(activation, units, loss, targets, outputs, from_logits)
    finding = found(diagnosis, "structural-mismatch")
    assert words in finding.title
    assert finding.remedy
    assert (finding.since, finding.detected, finding.layer) == (1, 1, "net/out")
    assert finding.evidence["smallest target"] == np.min(targets)
    assert alarms(diagnosis) == ["structural-mismatch"]


@pytest.mark.parametrize(
    ("activation", "units", "loss", "targets", "outputs", "from_logits", "words"),
    [
        ("sigmoid", 3, SPARSE, [0, 1, 2], [0.3, 0.6], False, "one of several classes"),
        ("relu", 3, SPARSE, [0, 1, 2], [0.0, 0.6], True, "neither a probability"),
        ("softmax", 3, CATEGORICAL, [[1, 0, 0], [0, 0, 0]], [0.3, 0.6], False, "add up to 0.5"),
    ],
)
def test_what_models_learn_with_nevertheless_is_advice(
    activation, units, loss, targets, outputs, from_logits, words
):
    diagnosis = diagnosed(activation, units, loss, targets, outputs, from_logits)
    finding = found(diagnosis, "structural-mismatch")
    assert words in finding.title
    assert finding.severity == "info"
    assert alarms(diagnosis) == []


@pytest.mark.parametrize(
    ("activation", "loss", "from_logits", "expected"),
    [
        ("relu", SPARSE, True, ["structural-mismatch"]),
        ("sigmoid", SPARSE, False, ["loss-not-falling"]),
    ],
)
def test_advice_is_a_warning_only_if_it_may_be_why_nothing_is_learned(
    activation, loss, from_logits, expected
):
    facts = facts_of([("net/out", "Dense", activation, 3)], loss, from_logits=from_logits)
    arrays = {(Kind.TARGET, "y"): [0, 1, 2], (Kind.OUTPUT, "net/out"): [0.3, 0.6]}

    def losses(step):
        return 1.09 + 0.01 * np.sin(step)

    flat = observed([reading(step, arrays, losses(step)) for step in range(1, 311)], facts)
    assert [rule for rule in alarms(flat) if rule in expected] == expected
    falls = observed([reading(step, arrays, 1.1 * 0.97**step) for step in range(1, 81)], facts)
    assert alarms(falls) == []


def test_values_are_no_labels_of_classes():
    finding = found(
        diagnosed("softmax", 3, SPARSE, [0.5, 1.2], [0.3, 0.6], whole=False), "structural-mismatch"
    )
    assert "whole numbers" in finding.title


def test_layers_that_only_reshape_are_looked_through():
    facts = ModelFacts(
        [
            LayerFacts("net/dense", "Dense", "sigmoid", 4),
            LayerFacts("net/reshape", "Reshape", None, 2),
        ],
        ["net/reshape"],
        LossFacts(SQUARES),
    )
    diagnosis = observed([reading(1, {(Kind.TARGET, "y"): [-50.0, 50.0]}, 1.0)], facts)
    assert found(diagnosis, "structural-mismatch").layer == "net/dense"


@pytest.mark.parametrize(
    "facts",
    [
        ModelFacts(),
        facts_of([("net/out", "Dense", "softmax", 1)]),
        ModelFacts(loss=LossFacts(BINARY)),
        # Two outputs: which targets are whose is not known.
        ModelFacts(
            [LayerFacts("net/a", "Dense", "softmax", 1), LayerFacts("net/b", "Dense", "relu", 1)],
            ["net/a", "net/b"],
            LossFacts(BINARY),
        ),
    ],
)
def test_what_is_not_known_is_not_guessed(facts):
    arrays = {(Kind.TARGET, "y"): [-50.0, 50.0], (Kind.OUTPUT, "net/out"): [1.0, 0.5]}
    assert observed([reading(1, arrays, 1.0)], facts).findings == []


def test_labels_that_fitted_for_long_belong_to_another_head_later():
    facts = facts_of([("net/out", "Dense", "softmax", 5)], SPARSE)

    def at(step):
        return reading(step, {(Kind.TARGET, "y"): [0, 4 if step < 20 else 9]}, 1.0)

    assert observed([at(step) for step in range(1, 40)], facts).findings == []
    (finding,) = observed([at(step) for step in range(12, 24)], facts).findings
    assert "from 0 to 9" in finding.title


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([("a", "Dense", "softmax", 3), ("b", "Softmax", None, 3)], True),
        (
            [
                ("a", "Dense", "sigmoid", 3),
                ("b", "Reshape", None, 3),
                ("c", "Activation", "softmax", 3),
            ],
            True,
        ),
        ([("a", "Dense", "linear", 3), ("b", "Softmax", None, 3)], False),
        # Another layer is between them.
        ([("a", "Dense", "softmax", 3), ("b", "Dense", "softmax", 3)], False),
    ],
)
def test_two_softmaxes_in_a_row_are_said(layers, expected):
    facts = facts_of(layers, SPARSE, from_logits=False)
    arrays = {(Kind.TARGET, "y"): [0, 1, 2], (Kind.OUTPUT, layers[-1][0]): [0.3, 0.4]}
    diagnosis = observed([reading(1, arrays, 1.09)], facts)
    assert alarms(diagnosis) == ["structural-mismatch"] * expected
