"""What the structure of a model shows by itself, and what is left alone."""

from dataclasses import replace

import numpy as np
import pytest

from gradwatch import Kind
from gradwatch.core import LayerFacts, LossFacts, ParameterFacts
from gradwatch.diagnosis import ModelFacts

from .support import course, facts_of, observed, reading

LAYERS = (LayerFacts("a", "Linear", None, 8, True), LayerFacts("b", "Linear", None, 1, True))
CLASSES = (LAYERS[0], LayerFacts("b", "Linear", None, 3, True))
UNTRAINED = (Kind.SCALAR, "untrained_parameters")


def severities(facts, loss=lambda step: 2.0 * 0.9**step, steps=3, arrays=None):
    """The severities of structural findings by their titles' first words, worst first."""
    arrays = {(Kind.INPUT, "x"): [0.0, 1.0], **(arrays or {})}
    diagnosis = observed([reading(s, arrays, loss(s)) for s in range(1, steps + 1)], facts)
    diagnosis.observe_end()
    return [str(f.severity) for f in diagnosis.findings if f.rule == "structural-mismatch"]


def flat(step):
    return 0.7 + 0.01 * (step % 3)


@pytest.mark.parametrize(
    "facts",
    [
        ModelFacts(LAYERS, parameters=ParameterFacts(17, 0)),
        ModelFacts(LAYERS, ["b"], LossFacts("mean_squared_error", shapes=[[5, 1], [1, 5]])),
        ModelFacts(LAYERS, ["b"], LossFacts("mean_squared_error", shapes=[[5, 1], [5]])),
        ModelFacts(CLASSES, ["b"], LossFacts("sparse_categorical_crossentropy", axis=0)),
        ModelFacts(LAYERS, ["b"], LossFacts("nll_loss")),
    ],
)
def test_what_cannot_learn_the_right_thing_is_an_error(facts):
    assert severities(facts) == ["error"]


@pytest.mark.parametrize(
    "facts",
    [
        # Most layers of a pretrained model are frozen, only an adapter is trained.
        ModelFacts(LAYERS, parameters=ParameterFacts(1_000_000, 10)),
        # Several quantiles of one target.
        ModelFacts(LAYERS, ["b"], LossFacts("mean_absolute_error", shapes=[[5, 3], [5, 1]])),
        ModelFacts(CLASSES, ["b"], LossFacts("sparse_categorical_crossentropy", True, axis=-1)),
        # Logistic regression is linear.
        ModelFacts(LAYERS[1:], is_linear=True),
        # Frozen on purpose, with statistics from before.
        ModelFacts([LayerFacts("n", "BatchNorm2d", is_inferring=True, is_fresh=False)]),
        ModelFacts([LayerFacts("d", "Dropout", rate=0.5)]),
        ModelFacts(LAYERS, parameters=ParameterFacts(17, 17, unheld=["a"])),
    ],
)
def test_what_may_be_meant_is_left_alone(facts):
    assert severities(facts) == []


@pytest.mark.parametrize(
    "facts",
    [
        ModelFacts(LAYERS, is_linear=True),
        ModelFacts([LayerFacts("n", "BatchNorm2d", is_inferring=True, is_fresh=True)]),
        ModelFacts([LayerFacts("d", "Dropout", rate=0.95)]),
    ],
)
def test_what_many_models_learn_with_is_a_warning_only_if_nothing_is_learned(facts):
    assert severities(facts, steps=80) == ["info"]
    assert severities(facts, flat, steps=80)[0] == "warning"


@pytest.mark.parametrize(
    ("facts", "is_warning"),
    [
        (ModelFacts(LAYERS, is_linear=True), True),
        # These do not limit what can be learned, and noise may be all that is left.
        (ModelFacts([*LAYERS, LayerFacts("d", "Dropout", rate=0.95)]), False),
        (ModelFacts(LAYERS, parameters=ParameterFacts(1_000_000, 10)), False),
        (ModelFacts(LAYERS), False),
    ],
)
def test_what_limits_a_model_is_a_warning_if_little_is_learned_at_the_end(facts, is_warning):
    facts = replace(facts, outputs=["b"], loss=LossFacts("mean_squared_error"))
    guess = {(Kind.SCALAR, "constant_loss"): [1.0]}
    noise = 0.02 * np.random.default_rng(0).standard_normal(80)
    losses = np.maximum(0.8, 1.5 - np.arange(80) / 40) + noise
    diagnosis = observed(course(80, lambda _: guess, losses.tolist()), facts)
    assert not diagnosis.alarms
    diagnosis.observe_end()
    assert bool(diagnosis.alarms) == is_warning


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (ParameterFacts(17, 8, unregistered=["layers/0"]), ["warning"]),
        # Without its last layer, the model was not meant to be trained.
        (ParameterFacts(17, 8, unheld=["b"]), ["warning"]),
        (ParameterFacts(17, 8, unheld=["a"]), ["info"]),
        # What was never trained is no pretrained model.
        (ParameterFacts(17, 8, unheld=["a"], fresh=["a"]), ["warning"]),
    ],
)
def test_parameters_that_no_optimizer_holds_are_named_once_that_is_certain(parameters, expected):
    facts = ModelFacts(LAYERS, ["b"], parameters=parameters)
    assert severities(facts, arrays={UNTRAINED: [9.0]}) == expected


def test_a_softmax_over_the_samples_shows_in_its_sums():
    layers = [LayerFacts("out", "Lambda", None, 2)]
    facts = ModelFacts(layers, ["out"], LossFacts("sparse_categorical_crossentropy", False))
    wrong = {(Kind.OUTPUT, "out"): [[0.2, 0.3], [0.5, 0.3], [0.1, 0.2], [0.2, 0.2]]}
    right = {(Kind.OUTPUT, "out"): [[0.2, 0.8], [0.5, 0.5], [0.1, 0.9], [0.4, 0.6]]}
    assert severities(facts, arrays=wrong) == ["error"]
    assert severities(facts, arrays=right) == []


def test_labels_that_are_all_the_same_are_no_finding_of_an_adversary():
    facts = facts_of([("net/out", "Dense", "sigmoid", 1)], "binary_crossentropy")
    labels = {(Kind.TARGET, "target"): [1.0] * 8}
    found_in = {
        group: [f.title for f in observed(readings, facts).findings]
        for group in ("", "generator")
        for readings in [[reading(step, labels, 0.7, group) for step in range(1, 20)]]
    }
    assert any("nothing to learn" in title for title in found_in[""])
    assert not any("nothing to learn" in title for title in found_in["generator"])


def test_one_label_for_all_samples_is_worth_knowing():
    facts = ModelFacts(CLASSES, ["b"], LossFacts("binary_crossentropy", True))
    labels = {(Kind.TARGET, "target"): [1.0] * 8}
    assert severities(facts, steps=16, arrays=labels) == ["info"]


@pytest.mark.parametrize(
    ("scale", "expected"), [(20.0, []), (0.05, []), (1e-4, ["warning", "info"])]
)
def test_a_temperature_is_blamed_if_nothing_is_learned(scale, expected):
    facts = ModelFacts(CLASSES, ["b"], LossFacts("sparse_categorical_crossentropy", scale=scale))
    assert severities(facts, lambda step: 0.4 + flat(step), 70) == expected
    assert "warning" not in severities(facts, steps=70)


@pytest.mark.parametrize(("last", "expected"), [(2.0, ["warning", "info"]), (0.2, ["info"])])
def test_a_temperature_is_blamed_if_all_that_falls_is_a_loss_above_that_of_a_guess(last, expected):
    facts = ModelFacts(CLASSES, ["b"], LossFacts("sparse_categorical_crossentropy", scale=1e4))
    late = np.linspace(1.5 * last, last, 100)
    losses = [*np.geomspace(1e3, late[0], 60), *late]
    assert severities(facts, lambda step: losses[step - 1], 160) == expected


def test_a_normalization_in_inference_mode_explains_a_loss_that_blows_up():
    facts = ModelFacts([LayerFacts("n", "BatchNorm1d", is_inferring=True, is_fresh=True), *LAYERS])
    assert severities(facts, lambda step: 2.0 * 9.0**step, 4) == ["error"]


def test_a_few_trainable_parameters_are_blamed_if_nothing_is_learned():
    facts = ModelFacts(LAYERS, parameters=ParameterFacts(10_000, 10))
    assert severities(facts, flat, 70) == ["warning"]
    assert severities(facts, steps=70) == []


@pytest.mark.parametrize(
    ("first", "last", "gradient", "expected"),
    [
        (0.0, 0.0, 0.0, ["error"]),
        (0.5, 0.5, 0.0, ["error"]),
        # A last layer that starts with 0 moves at once; weights decay to 0 later.
        (0.0, [0.1, -0.1], 1.0, []),
        ([0.1, -0.1], 0.0, 0.0, []),
    ],
)
def test_weights_that_start_equal_and_stay_so_are_an_error(first, last, gradient, expected):
    def at(step):
        weights = np.broadcast_to(first if step == 1 else last, (2,))
        arrays = {(Kind.WEIGHT, f"{layer}/kernel"): weights for layer in "ab"}
        arrays |= {(Kind.GRADIENT, f"{layer}/kernel"): [gradient] * 2 for layer in "ab"}
        return reading(step, arrays, flat(step))

    findings = observed(map(at, range(1, 9)), ModelFacts(LAYERS)).findings
    assert [f.severity for f in findings if f.rule == "structural-mismatch"] == expected


@pytest.mark.parametrize(
    ("mean", "losses", "expected"),
    [
        (5000.0, [25e6 * 0.99**step for step in range(80)], True),
        (5000.0, [25e6 * 0.5**step + 0.9 for step in range(80)], False),
        (3.0, [10.0 * 0.99**step for step in range(80)], False),
    ],
)
def test_targets_far_from_zero_are_said_if_their_mean_was_not_reached(mean, losses, expected):
    facts = facts_of([("net/out", "Dense", None, 1)], "mean_squared_error")
    y = mean + np.array([-1.0, 1.0, -1.0, 1.0])
    arrays = {(Kind.TARGET, "y"): y, (Kind.SCALAR, "constant_loss"): [1.0]}
    diagnosis = observed(course(80, lambda step: arrays, losses), facts)
    diagnosis.observe_end()
    said = [each.title for each in diagnosis.alarms if each.title.startswith("The targets have")]
    assert bool(said) == expected
