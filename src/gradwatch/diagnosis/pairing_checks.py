"""A loss that compares outputs with targets that are not theirs."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.vocabulary import LossKind, loss_kind

_STEPS = 3
"""Measured steps that must agree."""
_EXACT, _CLEAR = 1e-4, 1e-2
"""Shares of a loss: what rounding changes at most, and what tells two formulas apart."""
_SHARE, _RARE, _ENOUGH = 0.3, 20, 100
"""Of a class's frequency, that answers must reach; samples of it, and losses, before it is said."""


def _class_numbers(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    """Class numbers as values: each is compared with the outputs of all classes."""
    targets, last = history[Kind.TARGET], facts.last_layer
    is_value = loss_kind(facts.loss.name) is LossKind.REGRESSION
    if not (is_value and facts.targets_are_whole) or last is None or (last.units or 0) < 3:
        return
    place = _output_place(history, facts)
    if place is None or len(targets.sites) != 1 or not len(targets):
        return
    count = history[Kind.OUTPUT].column("count", place, 1)[0] / targets.column("count", 0, 1)[0]
    low = float(np.nanmin(targets.column("min", 0, 16)))
    high = float(np.nanmax(targets.column("max", 0, 16)))
    classes = last.units or 0
    if count != classes or low < 0 or not 1 < high < classes:
        return
    yield Symptom(
        f"The loss compares each class number with the outputs of all {classes} classes.",
        {"loss": facts.loss.name or "", "output units": classes, "largest target": high},
        layer=last.path,
        since=history.first_step,
        severity=Severity.ERROR,
        remedy="Use sparse_categorical_crossentropy (torch: cross_entropy), or one-hot targets.",
        about="class numbers",
    )


def _all_pairs(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    """A squared error of the user's own whose value is that over all pairs of a batch.

    The mean over samples is smaller by twice the covariance of outputs and targets.
    """
    agreement = dict(history.numbers.get("agreement", ())[-64:])
    place, last = _output_place(history, facts), facts.last_layer
    tables = history[Kind.OUTPUT], history[Kind.TARGET]
    if not agreement or place is None or last is None or last.units != 1:
        return
    if len(tables[1].sites) != 1 or not history.losses.has_single:
        return
    newest = slice(-64, None)
    losses = dict(zip(history.losses.steps[newest].tolist(), history.losses.last(64), strict=True))
    columns = []
    for table, column in zip(tables, (place, 0), strict=True):
        values = [table.column(name, column, len(table)) for name in ("count", "mean", "std")]
        columns.append(dict(zip(table.steps.tolist(), zip(*values, strict=True), strict=True)))
    agreeing = 0
    for step in sorted(set(agreement).intersection(losses, *columns))[-8:]:
        (size, mean, spread), (wanted_size, wanted, deviation) = (x[step] for x in columns)
        over_pairs = spread**2 + deviation**2 + (mean - wanted) ** 2
        difference = 2.0 * agreement[step] * spread * deviation
        if size != wanted_size or not abs(difference) > _CLEAR * over_pairs:
            continue
        if not abs(losses[step] - over_pairs) < _EXACT * over_pairs:
            return
        agreeing += 1
    if agreeing < _STEPS:
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
    if history[Kind.TARGET].measured < _STEPS or not shares or min(shares) < 1.0:
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


def _unreachable_share(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    """Answers for two classes that all stay far from how frequent these are.

    Of a model that knows nothing but that, each answer would be nearer; weights of classes that are
    meant to help the rare one move them to the other side.
    """
    targets, place = history[Kind.TARGET], _output_place(history, facts)
    is_binary = loss_kind(facts.loss.name) is LossKind.BINARY
    if not is_binary or place is None or not history.has_ended or len(targets.sites) != 1:
        return
    outputs, count = history[Kind.OUTPUT], 8
    if min(len(outputs), len(targets)) < count or len(history.losses) < _ENOUGH:
        return
    low = float(np.nanmin(outputs.column("min", place, count)))
    high = float(np.nanmax(outputs.column("max", place, count)))
    if facts.loss.from_logits:
        low, high = (1.0 / (1.0 + np.exp(-np.clip(x, -500.0, 500.0))) for x in (low, high))
    share = float(np.nanmean(targets.column("mean", 0, len(targets))))
    elements = float(np.nansum(targets.column("count", 0, len(targets))))
    # Only if enough of the rare class were seen.
    if not 0.0 <= low <= high <= 1.0 or min(share, 1.0 - share) * elements < _RARE:
        return
    is_low, is_high = high < _SHARE * share, 1.0 - low < _SHARE * (1.0 - share)
    if not (is_low or is_high):
        return
    yield Symptom(
        f"Class {int(is_low)} is never chosen: {share if is_low else 1.0 - share:.2g} of the "
        f"targets have it, and no answer gives it more than {high if is_low else 1.0 - low:.2g}.",
        {"share of class 1": share, "smallest answer": low, "largest answer": high},
        layer=outputs.sites[place].layer,
        since=history.step,
        severity=Severity.WARNING,
        remedy="Check the weights of classes and samples: that of this class is far too small. It "
        "is usually the rare class that gets the large weight.",
        about="share",
    )


def _output_place(history: History, facts: ModelFacts) -> int | None:
    """The place of the output layer among the outputs that are measured."""
    sites = history[Kind.OUTPUT].sites
    return next((i for i, site in enumerate(sites) if site.layer in facts.outputs), None)


PAIRING_CHECKS: Sequence[Callable[[History, ModelFacts, bool], Iterator[Symptom]]] = (
    _class_numbers,
    _all_pairs,
    _unreachable_share,
    _copied_classes,
)
