"""A loss that compares outputs with targets that are not theirs."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.chance import left_by_weights
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.network_order import output_place
from gradwatch.diagnosis.squared_errors import CLEAR, EXACT, STEPS, squared_errors
from gradwatch.diagnosis.vocabulary import LossKind, loss_kind

_WEIGHTED, _LEFT = 8, 0.15
"""Measured steps with weights or targets; the share of their entropy that weights must leave."""

_ENOUGH, _LEARNED = 50, 0.5
"""Losses in which targets that are always the same show it; the share of the guess's loss."""


def _class_numbers(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    """Class numbers as values: each is compared with the outputs of all classes."""
    targets = history[Kind.TARGET]
    is_value = loss_kind(facts.loss.name) is LossKind.REGRESSION
    if not is_value or len(targets.sites) != 1 or not len(targets):
        return
    classes = _outputs_of_target(history, facts)
    low = float(np.nanmin(targets.column("min", 0, 16)))
    high = float(np.nanmax(targets.column("max", 0, 16)))
    total = targets.column("sum", 0, 16)
    are_whole = bool(np.all(total == np.round(total)))
    if not classes >= 3 or classes != round(classes) or not are_whole or low < 0:
        return
    if facts.targets_are_whole is False or not 1 < high < classes:
        return
    yield Symptom(
        f"The loss compares each class number with the outputs of all {classes:.0f} classes.",
        {"loss": facts.loss.name or "", "output units": classes, "largest target": high},
        layer=facts.last_layer.path if facts.last_layer is not None else "",
        since=history.first_step,
        severity=Severity.ERROR,
        remedy="Use sparse_categorical_crossentropy (torch: cross_entropy), or one-hot targets.",
        about="class numbers",
    )


def _outputs_of_target(history: History, facts: ModelFacts) -> float:
    """With how many outputs each target is compared; NaN if unknown."""
    known = history.numbers.get("outputs_of_target", ())
    if known:
        return known[-1][1]
    place, last = output_place(history[Kind.OUTPUT], facts), facts.last_layer
    if place is None or last is None or not last.units:
        return math.nan
    outputs, targets = history[Kind.OUTPUT], history[Kind.TARGET]
    count = outputs.column("count", place, 1)[0] / targets.column("count", 0, 1)[0]
    return float(count) if count == last.units else math.nan


def _all_pairs(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    """A squared error of the user's own whose value is that over all pairs of a batch."""
    agreeing, last = 0, facts.last_layer
    for known in list(squared_errors(history, facts))[-8:]:
        if not abs(known.of_pairs - known.of_samples) > CLEAR * known.of_pairs:
            continue
        if not abs(known.loss - known.of_pairs) < EXACT * known.of_pairs:
            return
        agreeing += 1
    if agreeing < STEPS or last is None:
        return
    yield Symptom(
        "The loss compares each output with each target of the batch: its value is the mean "
        "squared error over all pairs.",
        {"measured steps": agreeing},
        layer=last.path,
        since=history.first_step,
        severity=Severity.ERROR,
        remedy="Give targets and outputs the same shape within the loss: it broadcasts (n,) and "
        "(n, 1) to (n, n).",
        about="all pairs",
    )


def _copied_classes(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    """Each class is the id that the model was given in its place: it learns to copy."""
    shares = [share for _, share in history.numbers.get("copied_classes", ())]
    if history[Kind.TARGET].measured < STEPS or not shares or min(shares) < 1.0:
        return
    yield Symptom(
        "The targets are the inputs: each answer is the input in its place.",
        {"measured steps": history[Kind.TARGET].measured},
        sites=list(history[Kind.TARGET].sites),
        since=history.first_step,
        severity=Severity.WARNING,
        remedy="To predict what comes next, shift the targets by one: inputs[:, :-1] and "
        "inputs[:, 1:]. To fill gaps, mask what is to be predicted.",
        about="copied",
    )


def _one_target(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    """The values to predict are the same in all steps, and their inputs are not.

    Not classes: a contrast has the same places each time, and so may the classes of a game.
    """
    table, inputs = history[Kind.TARGET], history[Kind.INPUT]
    if loss_kind(facts.loss.name) is not LossKind.REGRESSION or len(table.sites) != 1:
        return
    if min(len(table), len(inputs)) < _WEIGHTED or len(history.losses) < _ENOUGH:
        return
    rows, others = table.rows(len(table)), inputs.rows(len(inputs))
    total = table.column("sum", 0, len(table))
    if not np.all(rows == rows[0]) or np.all(total == np.round(total)):
        return
    if not np.any(others != others[0], axis=(0, 2)).all() or not table.latest("std")[0] > 0:
        return
    # What is learned so well, is what is to be learned.
    if judgement(history, facts).skill.low > _LEARNED:
        return
    yield Symptom(
        "All steps have the same targets, although their inputs differ.",
        {"measured steps": len(table), **judgement(history, facts).evidence()},
        sites=list(table.sites),
        since=history.first_step,
        severity=Severity.WARNING,
        remedy="Check that the targets of a step are taken from the same rows as its inputs.",
        about="one target",
    )


def _one_class_counts(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    """Weights with which the loss is about one class only, though there are others."""
    left, targets = left_by_weights(history), history[Kind.TARGET]
    if targets.measured < _WEIGHTED or not left < _LEFT:
        return
    yield Symptom(
        "The weights make the loss depend on one class only: they leave "
        f"{left:.1%} of what there is to tell apart.",
        {
            "entropy of the classes": history.numbers["class_guess"][-1][1],
            "entropy of the weighted classes": history.numbers["weighted_guess"][-1][1],
        },
        sites=list(targets.sites),
        since=history.first_step,
        severity=Severity.WARNING,
        remedy="Check the weights of classes and samples: it is usually the rare class that gets "
        "the large weight, and no class one of 0. Integer division may have made them 0.",
        about="weights",
    )


def _activated_logits(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    """Probabilities where logits are expected, of a model whose last layer is not known."""
    known = facts.loss
    kind, activation = loss_kind(known.name), known.activation
    if facts.last_layer is not None or kind is None or not known.from_logits:
        return
    if not kind.takes_probabilities or activation not in ("sigmoid", "softmax", "hard_sigmoid"):
        return
    yield Symptom(
        f"{known.name} expects logits, but {activation} was applied before.",
        {"loss": known.name or "", "last activation": activation},
        since=history.first_step,
        severity=Severity.WARNING,
        remedy=f"Give the loss what {activation} is applied to, or use a loss of probabilities.",
        about="activated",
    )


PAIRING_CHECKS: Sequence[Callable[[History, ModelFacts, bool], Iterator[Symptom]]] = (
    _class_numbers,
    _all_pairs,
    _one_target,
    _one_class_counts,
    _activated_logits,
    _copied_classes,
)
