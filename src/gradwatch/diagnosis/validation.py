"""Whether what a network learns holds for data that it was not trained on."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gradwatch.core import ModelFacts
from gradwatch.diagnosis.accuracy import is_score
from gradwatch.diagnosis.chance import constant_accuracy, guess_of_validation
from gradwatch.diagnosis.data_losses import added_between
from gradwatch.diagnosis.history import History

_LOSS = re.compile(r"(val|valid|validation|test|eval|dev)[_/. -]?loss", re.IGNORECASE)
_PREFIX = re.compile(r"(val|valid|validation|test|eval|dev)[_/. -]?", re.IGNORECASE)

_SCORES = 3
"""Of validations; single ones may be odd."""


@dataclass(frozen=True)
class Validated:
    """One validation: the losses of validation and training, and the epoch, 0 if unknown."""

    step: int
    epoch: int
    train: float
    loss: float
    score: float = math.nan
    """The accuracy, or a similar score, of the validation data."""


def validations(history: History, facts: ModelFacts) -> list[Validated]:
    """All validations whose loss is known, in their order; without what is added to the loss."""
    return history.cached_per_step(
        "validations", lambda: _of_epochs(history, facts) or _of_loop(history)
    )


def _of_epochs(history: History, facts: ModelFacts) -> list[Validated]:
    found, before = [], 0
    for each in history.epochs:
        train, loss = each.logs.get("loss", math.nan), each.logs.get("val_loss", math.nan)
        train -= added_between(history, facts, before + 1, each.step)
        loss -= added_between(history, facts, each.step, each.step)
        before = each.step
        if math.isfinite(train) and math.isfinite(loss):
            found.append(Validated(each.step, each.epoch, train, loss, _score(each.logs)))
    return found


def _score(logs: Mapping[str, float]) -> float:
    of_validation = {_PREFIX.sub("", n, 1): x for n, x in logs.items() if _PREFIX.match(n)}
    return next((x for name, x in of_validation.items() if is_score(name)), math.nan)


def _of_loop(history: History) -> list[Validated]:
    """From the metrics of a loop, each with the mean training loss since the one before."""
    name = next((name for name in history.metrics if _LOSS.fullmatch(name)), None)
    scores = {}
    for own, series in history.metrics.items():
        if _PREFIX.match(own) and is_score(_PREFIX.sub("", own, 1)):
            scores = dict(series)
    found, steps, values = [], history.losses.steps, history.losses.values
    before = 0
    for step, loss in history.metrics[name] if name else ():
        first, last = np.searchsorted(steps, [before, step], side="right")
        if math.isfinite(loss) and last > first:
            train = float(np.nanmean(values[first:last]))
            found.append(Validated(step, 0, train, loss, scores.get(step, math.nan)))
        before = step
    return found


@dataclass(frozen=True)
class Generalisation:
    """Whether the network generalises; `since` is the validation from which on it does not."""

    is_good: bool
    since: Validated | None = None


def generalisation(history: History, facts: ModelFacts) -> Generalisation | None:
    """Whether what was learned holds for the validation data; None if that is not known."""
    known = validations(history, facts)
    if not known:
        return _by_scores(history, facts)
    best, last = min(known, key=lambda each: each.loss), known[-1]
    chance = guess_of_validation(history, facts)
    constant = constant_accuracy(history, facts)
    is_scored = last.score > constant + 0.2 * (1.0 - constant)
    # Never better than a constant guess.
    if not is_scored and best.loss > 0.97 * chance:
        return Generalisation(False) if len(known) > 2 else None
    has_risen = last.loss > 1.2 * best.loss and last.train < 0.8 * best.train
    if best.loss > 0 and has_risen and last.loss > 1.5 * last.train:
        return Generalisation(False, best)
    # Most of what it gains on the training data it must gain on the others as well.
    gain, gain_there = 1.0 - last.train / chance, 1.0 - last.loss / chance
    if is_scored or gain_there > 0.5 * gain > 0 or last.loss < 1.3 * abs(last.train):
        return Generalisation(True)
    return Generalisation(False) if gain_there <= 0.5 * gain and gain > 0.5 else None


def _by_scores(history: History, facts: ModelFacts) -> Generalisation | None:
    """Where a loop reports scores of validation, but no loss."""
    constant = constant_accuracy(history, facts)
    for name, series in history.metrics.items():
        scores = [value for _, value in series[-_SCORES:] if math.isfinite(value)]
        is_of_validation = _PREFIX.match(name) and is_score(_PREFIX.sub("", name, 1))
        if is_of_validation and len(scores) == _SCORES and math.isfinite(constant):
            if min(scores) > constant + 0.2 * (1.0 - constant):
                return Generalisation(True)
            if max(scores) < constant + 0.05 * (1.0 - constant):
                return Generalisation(False)
    return None
