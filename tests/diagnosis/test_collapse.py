"""Outputs that do not tell samples apart, and adversaries of which one has won."""

import numpy as np
import pytest

from gradwatch import Kind
from gradwatch.core import LossFacts
from gradwatch.diagnosis import Diagnosis, ModelFacts

from .support import alarms, falling, found, observed, reading

VALUES = ModelFacts(loss=LossFacts("mean_squared_error"))
COLLAPSE, WINS = "representation-collapse", "adversary-wins"


def varying(steps, outputs, inputs=0.6, targets=None, losses=None, facts=None, calls=2, guess=None):
    """The diagnosis of a course in which samples differ so much; `outputs` is a function."""

    def at(step):
        numbers = {"output_variation": outputs(step), "input_variation": inputs}
        numbers["module_calls"] = calls
        if targets is not None:
            numbers["target_variation"] = targets
        if guess is not None:
            numbers["constant_loss"] = guess
        arrays = {(Kind.SCALAR, name): [x] for name, x in numbers.items()}
        loss = None if losses is None else losses[step - 1]
        return reading(step, {(Kind.WEIGHT, "a/weight"): [1.0], **arrays}, loss)

    diagnosis = observed([at(step) for step in range(1, steps + 1)], facts)
    diagnosis.observe_end()
    return diagnosis


def fading(step):
    return max(0.8 * 0.9**step, 0.03)


def test_outputs_that_become_alike_without_targets_have_collapsed():
    finding = found(varying(80, fading, losses=falling(80)), COLLAPSE)
    assert (finding.severity, finding.detected) == ("warning", 80)


def test_averages_may_be_learned_before_differences():
    def outputs(step):
        return fading(step) if step < 50 else 0.01 * (step - 45)

    assert alarms(varying(80, outputs, losses=falling(80))) == []


@pytest.mark.parametrize(
    ("outputs", "options"),
    [
        (lambda step: 0.5 + 0.1 * np.sin(step), {}),
        # What is called once may be a policy, or a distance from one point.
        (fading, {"calls": 1}),
        # Always near one direction: that of a large bias.
        (lambda step: 0.08 + 0.01 * np.sin(step), {}),
        # Classes tell samples apart, whatever the sizes of logits.
        (
            fading,
            {
                "targets": 0.6,
                "facts": ModelFacts(loss=LossFacts("sparse_categorical_crossentropy")),
            },
        ),
        # A discriminator says the same of all that is genuine.
        (fading, {"facts": ModelFacts(loss=LossFacts(judges=["generator"]))}),
        # Values with a large mean.
        (fading, {"targets": 0.03, "facts": VALUES}),
        (lambda step: 0.2, {"targets": 0.6, "facts": VALUES}),
    ],
)
def test_outputs_that_tell_samples_apart_are_left_alone(outputs, options):
    assert alarms(varying(80, outputs, losses=falling(80), **options)) == []


def test_outputs_that_ignore_varied_targets_are_said_at_the_end():
    facts = ModelFacts(loss=LossFacts("binary_crossentropy", reduction="other"))
    diagnosis = varying(80, fading, targets=0.6, losses=falling(80), facts=facts)
    assert found(diagnosis, COLLAPSE).detected == 80


def test_layers_that_average_everything_away_are_said_if_nothing_is_learned():
    flat = [1.4 + 0.01 * (step % 3) for step in range(120)]
    assert found(varying(120, lambda step: 0.01, losses=flat), COLLAPSE).detected == 120


def test_constant_noise_is_named_as_the_input_that_does_not_vary():
    finding = found(varying(30, lambda step: 0.0, inputs=0.0), COLLAPSE)
    assert (finding.detected, "All samples" in finding.title) == (20, True)


def pair(losses, loss=None):
    """A diagnosis of a discriminator that judges a generator."""
    own = loss or LossFacts("binary_crossentropy", judges=["generator"])
    diagnosis = Diagnosis(ModelFacts(groups={"critic": ModelFacts(loss=own)}))
    diagnosis.observe_losses(list(enumerate(losses, 1)), group="critic")
    diagnosis.observe_end()
    return diagnosis


WON = [1.4, 1.3, 1.4, 1.4, 1.3, *[0.5] * 90, *[0.001] * 120]


def test_a_discriminator_whose_loss_stays_at_nothing_has_won():
    finding = found(pair(WON), WINS)
    assert (finding.severity, finding.group) == ("warning", "critic")


@pytest.mark.parametrize(
    ("losses", "loss"),
    [
        ([*WON[:100], *[0.5, 0.9] * 60], None),
        # It was ahead for a while only.
        ([*WON, *[0.3] * 150], None),
        # A critic of actions is to be right, and a part of a joint training too.
        (WON, LossFacts("mean_squared_error", judges=["actor"])),
        (WON, LossFacts("binary_crossentropy")),
        ([-x for x in WON], None),
    ],
)
def test_adversaries_that_are_balanced_or_none_are_left_alone(losses, loss):
    assert alarms(pair(losses, loss)) == []


@pytest.mark.parametrize(("from_logits", "rest"), [(True, None), (False, "terms")])
def test_logits_of_rare_events_and_one_of_several_losses_need_not_vary_as_targets(
    from_logits, rest
):
    loss = LossFacts("binary_crossentropy", from_logits, rest=rest)
    options = {"targets": 0.9, "losses": falling(80), "calls": 1}
    assert alarms(varying(80, lambda step: 0.06, facts=ModelFacts(loss=loss), **options)) == []
    known = LossFacts("binary_crossentropy", False, reduction="other")
    assert alarms(varying(80, lambda step: 0.06, facts=ModelFacts(loss=known), **options)) == [
        COLLAPSE
    ]


@pytest.mark.parametrize(("guess", "severity"), [(None, "warning"), (2.3, "info")])
def test_a_network_that_has_learned_beyond_a_constant_guess_is_left_alone(guess, severity):
    options = {"targets": 0.6, "losses": falling(80), "facts": VALUES, "guess": guess}
    finding = found(varying(80, lambda step: 0.06, **options), COLLAPSE)
    assert finding.severity == severity
