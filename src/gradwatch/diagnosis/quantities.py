"""Numbers that several rules use."""

import math

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.losses import median
from gradwatch.diagnosis.network_order import matrices
from gradwatch.diagnosis.value_table import Array
from gradwatch.diagnosis.vocabulary import SQUARED_ERROR

_CLASSIFYING = frozenset(
    {"categorical_crossentropy", "sparse_categorical_crossentropy", "cross_entropy"}
)


def update_ratios(history: History, facts: ModelFacts, count: int) -> Array:
    """‖Δw‖/‖w‖ of the matrices in the last measured steps: steps x sites of updates.

    NaN for other variables, and for weights that were not measured or are all 0.
    """
    updates, weights = history[Kind.UPDATE], history[Kind.WEIGHT]

    def compute() -> Array:
        changes = updates.statistic("l2", count)
        columns = updates.cached_per_sites(
            ("columns", len(weights.sites)), lambda: _weight_columns(history)
        )
        sizes = np.full_like(changes, np.nan)
        steps = updates.steps[-changes.shape[0] :]
        rows = np.searchsorted(weights.steps, steps)
        there = rows < len(weights)
        there[there] &= weights.steps[rows[there]] == steps[there]
        if there.any() and (columns >= 0).any():
            reach = len(weights) - int(rows[there][0])
            norms = weights.statistic("l2", reach)[rows[there] - len(weights) + reach]
            sizes[there] = np.where(columns >= 0, norms[:, columns], np.nan)
        usable = matrices(updates, facts) & (sizes > 0)
        return np.where(usable, changes / np.where(usable, sizes, 1.0), np.nan)

    return updates.cached_per_step(("ratios", count), compute)


def _weight_columns(history: History) -> NDArray[np.intp]:
    """For each update, the column of its weight; -1 if the weight is not measured."""
    column = {site.path: i for i, site in enumerate(history[Kind.WEIGHT].sites)}
    return np.array([column.get(s.path, -1) for s in history[Kind.UPDATE].sites], np.intp)


def typical_ratios(history: History, facts: ModelFacts) -> Array:
    """The median of ‖Δw‖/‖w‖ over the matrices, in each kept measured step."""
    return history[Kind.UPDATE].series(
        "typical",
        lambda steps: [median(row[~np.isnan(row)]) for row in update_ratios(history, facts, steps)],
    )


def is_growing(ratios: Array) -> bool:
    """Whether updates have become larger since the start, as in a warm-up."""
    return ratios.size > 3 and float(np.median(ratios[-3:])) > 1.3 * float(np.median(ratios[1:4]))


def never_moved(history: History, facts: ModelFacts, ratio: float) -> bool:
    """Whether no step since the very first has changed the weights by more than this ratio."""
    if history.first_step > 1 or history[Kind.UPDATE].has_forgotten:
        return False
    typical = typical_ratios(history, facts)
    return typical.size > 1 and bool(np.nanmax(typical, initial=0.0) < ratio)


def chance_level(history: History, facts: ModelFacts) -> float:
    """The loss of a model that knows only how often each answer occurs; NaN if unknown."""
    return history.cached_per_step("chance", lambda: _chance_level(history, facts))


def _chance_level(history: History, facts: ModelFacts) -> float:
    name, last = facts.loss.name, facts.last_layer
    if facts.loss.reduction == "sum":
        return math.nan
    if name in _CLASSIFYING and last is not None and last.units and last.units > 1:
        return math.log(last.units)
    if name == "binary_crossentropy":
        share = 0.5
        if Kind.TARGET in history:
            share = float(np.nanmean(history[Kind.TARGET].column("mean", 0, 16)))
        if not 0.0 < share < 1.0:
            return math.log(2.0)
        return -share * math.log(share) - (1.0 - share) * math.log(1.0 - share)
    # With several outputs, the spread of the targets includes the known spread between them.
    is_single = last is not None and last.units == 1
    if name in SQUARED_ERROR and is_single and Kind.TARGET in history:
        return float(np.nanmedian(history[Kind.TARGET].column("std", 0, 16)) ** 2)
    return math.nan


def loss_of_zero(history: History, facts: ModelFacts) -> float:
    """The squared error of a model that always returns 0; NaN if unknown."""
    if facts.loss.name not in SQUARED_ERROR or Kind.TARGET not in history:
        return math.nan
    return float(np.nanmedian(history[Kind.TARGET].column("rms", 0, 4)) ** 2)


def progress(history: History, facts: ModelFacts) -> float:
    """The share by which the loss has fallen; 0 if that is within its noise.

    NaN until ten losses are known. For rules whose evidence is not the loss itself: a loss that
    is too noisy does not contradict them.
    """
    apparent = apparent_progress(history, facts)
    return 0.0 if apparent > 0 and history.losses.is_noise else apparent


def known_progress(history: History, facts: ModelFacts) -> dict[str, float]:
    """The progress as evidence; nothing while it is not known."""
    share = progress(history, facts)
    return {"loss improvement": share} if math.isfinite(share) else {}


def apparent_progress(history: History, facts: ModelFacts) -> float:
    """The share of its initial level by which the loss has fallen; NaN until ten are known.

    A loss that has only reached the chance level has made no progress.
    """
    losses, chance = history.losses, chance_level(history, facts)
    if len(losses) >= 10 and 0.95 * chance < losses.recent < 1.05 * chance:
        window = losses.last(10)
        # A falling loss passes the chance level too, but does not stay there.
        if abs(float(np.median(window[:5])) - losses.recent) < 0.03 * chance:
            return 1.0 - losses.recent / chance
    return losses.improvement


def has_learned(history: History, facts: ModelFacts, share: float = 0.5) -> bool:
    """Whether the loss is well below the chance level, or has fallen by this share."""

    def compute() -> bool:
        chance = chance_level(history, facts)
        if math.isfinite(chance) and history.losses.recent < (1.0 - share) * chance:
            return True
        return progress(history, facts) > share

    return history.cached_per_step(("learned", share), compute)
