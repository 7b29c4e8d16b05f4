"""Answers that cannot be right, whatever the loss says of them."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.accuracy import is_score
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.network_order import output_place
from gradwatch.diagnosis.rising_scores import fallen
from gradwatch.diagnosis.value_table import Array, ValueTable
from gradwatch.diagnosis.vocabulary import LossKind, last_activation, loss_kind

_SHARE, _RARE, _ENOUGH = 0.3, 20, 100
"""Of a class's frequency, that answers must reach; samples of it, and losses, before it is said."""
_MEASURED = 8
"""Measured steps with a correlation."""
_HARDLY = 0.1
"""The correlation of outputs and targets; networks that learn have far more."""
_WORSE = 0.1
"""By which accuracy is below that of always the same answer."""
_SCORES = 60
"""Of a loop, before they are said to fall."""


def _unreachable_share(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    """Answers for two classes that all stay far from how frequent these are.

    Of a model that knows nothing but that, each answer would be nearer; weights of classes that are
    meant to help the rare one move them to the other side.
    """
    if not history.has_ended:
        return
    targets, place = history[Kind.TARGET], output_place(history[Kind.OUTPUT], facts)
    if place is None or len(targets.sites) != 1:
        return
    if not _are_answers(history, facts):
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


def _are_answers(history: History, facts: ModelFacts) -> bool:
    """Whether outputs are probabilities of yes: by the loss, or by their activation and targets."""
    if loss_kind(facts.loss.name) is LossKind.BINARY:
        return True
    is_sigmoid = facts.loss.name is None and last_activation(facts)[1] == "sigmoid"
    return is_sigmoid and _are_yes_or_no(history[Kind.TARGET])


def _newest_agreement(history: History) -> Array:
    """The correlations of outputs and targets in the last third of the measured steps."""
    known = [value for _, value in history.numbers.get("agreement", ())]
    return np.array(known[-max(len(known) // 3, _MEASURED) :])


def are_deaf(history: History) -> bool:
    """Whether outputs have certainly nothing to do with their targets, as far as both are known."""
    newest = _newest_agreement(history)
    if newest.size < _MEASURED:
        return False
    error = float(newest.std(ddof=1)) / math.sqrt(newest.size)
    return bool(np.abs(newest.mean()) + 2.0 * error < _HARDLY)


def _deaf_answers(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    """Answers that have nothing to do with their targets, to a loss of the user's own."""
    newest = _newest_agreement(history)
    if not history.has_ended or newest.size < _MEASURED or len(history.losses) < _ENOUGH:
        return
    targets = history[Kind.TARGET]
    if facts.loss.name is not None or len(targets.sites) != 1 or not _are_yes_or_no(targets):
        return
    accuracy = judgement(history, facts).accuracy
    if last_activation(facts)[1] != "sigmoid" and math.isnan(accuracy):
        return  # It may be a distance, or the loss itself.
    share = float(np.nanmean(targets.column("mean", 0, len(targets))))
    constant = max(share, 1.0 - share)
    is_deaf = are_deaf(history)
    # Of a distance, answers and targets are opposites, and accuracy means nothing.
    is_worse = accuracy < constant - _WORSE and newest.mean() > 0
    if not (is_deaf or is_worse):
        return
    title = (
        f"The answers have nothing to do with their targets: a correlation of {newest.mean():.2g}."
        if is_deaf
        else f"Always the same answer would be right more often: {constant:.2f} of the time, and "
        f"not {accuracy:.2f}."
    )
    yield Symptom(
        title,
        {"correlation of outputs and targets": float(newest.mean()), "measured steps": newest.size},
        sites=list(targets.sites),
        since=history.step,
        severity=Severity.WARNING,
        remedy="Check what the loss does with targets of 0 and of 1: each must be punished if it "
        "is missed. Compare it with binary_crossentropy on one batch.",
        about="answers",
    )


def _are_yes_or_no(targets: ValueTable) -> bool:
    """Whether all targets are 0 or 1, and both occur."""
    count = min(len(targets), 16)
    if not count:
        return False
    low, high, total, squares = (
        targets.column(name, 0, count) for name in ("min", "max", "sum", "sum_squares")
    )
    # Of numbers from 0 to 1, only 0 and 1 are their own squares.
    is_inside = low.min() == 0.0 and high.max() == 1.0
    return bool(is_inside and np.allclose(total, squares, rtol=1e-5))


def _falling_scores(history: History, facts: ModelFacts, is_flat: bool) -> Iterator[Symptom]:
    """A score gets worse by what training does, and the loss does not tell."""
    if not history.has_ended or loss_kind(facts.loss.name) is not None:
        return
    for name, (before, now) in fallen(history, _SCORES).items():
        if is_score(name) and judgement(history, facts).is_accurate:
            continue
        yield Symptom(
            f"The score {name} has fallen from {before:.3g} to {now:.3g}, although the loss was "
            "minimized.",
            {"score at first": before, "score": now},
            since=history.step,
            severity=Severity.WARNING,
            remedy="Check the sign of the loss and of its terms: an optimizer minimizes, so that "
            "what is to grow needs a minus.",
            about=f"score {name}",
        )


ANSWER_CHECKS: Sequence[Callable[[History, ModelFacts, bool], Iterator[Symptom]]] = (
    _unreachable_share,
    _deaf_answers,
    _falling_scores,
)
