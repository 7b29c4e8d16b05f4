"""The loss without what regularizers and `add_loss` add to it: what the data says."""

import math

import numpy as np

from gradwatch.core import ADDED_LOSS, ModelFacts
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.losses import Losses
from gradwatch.diagnosis.vocabulary import loss_kind

_LEAST = 10
"""Measured steps from which on they tell the course of the loss."""
_MATERIAL = 0.03
"""The share of the loss that must be added to matter."""


def data_losses(history: History, facts: ModelFacts) -> Losses:
    """The losses by which a training is judged.

    They are those of the measured steps without what is added, if that is known and matters; else
    all losses. A loss of the user's own may be a trifle beside what is added.
    """
    return history.data_losses if is_added(history, facts) else history.losses


def is_added(history: History, facts: ModelFacts) -> bool:
    """Whether something is added to the loss that must be left out to judge it."""
    is_known = loss_kind(facts.loss.name) is not None or "constant_loss" in history.numbers
    if not is_known or len(history.data_losses) < _LEAST:
        return False
    series, losses = history.numbers[ADDED_LOSS], history.losses
    return series[0][1] > _MATERIAL * abs(losses.initial) or series[-1][1] > _MATERIAL * abs(
        losses.recent
    )


def added_between(history: History, facts: ModelFacts, first: int, last: int) -> float:
    """The mean of what was added in the steps from `first` to `last`; 0 if nothing is known."""
    if not is_added(history, facts):
        return 0.0
    steps, values = np.array(history.numbers[ADDED_LOSS]).T
    of_steps = values[(steps >= first) & (steps <= last)]
    if of_steps.size:
        return float(of_steps.mean())
    # It is kept only where it has changed.
    place = int(np.searchsorted(steps, first)) - 1
    return float(values[max(place, 0)])


def added_share(history: History, facts: ModelFacts) -> float:
    """How many times as much is added to the loss as there is without; NaN if unknown."""
    if not is_added(history, facts):
        return math.nan
    return history.numbers[ADDED_LOSS][-1][1] / max(abs(history.data_losses.recent), 1e-30)
