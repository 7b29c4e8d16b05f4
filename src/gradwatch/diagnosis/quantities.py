"""Numbers that several rules go by."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.network_order import matrices

Array = NDArray[np.float64]

_CLASSIFYING = frozenset(
    {"categorical_crossentropy", "sparse_categorical_crossentropy", "cross_entropy"}
)


def update_ratios(history: History, facts: ModelFacts, count: int) -> Array:
    """‖Δw‖/‖w‖ of the matrices in the last measured steps: steps x sites of updates.

    NaN for what is no matrix, was not measured, or is all 0.
    """
    updates, weights = history[Kind.UPDATE], history[Kind.WEIGHT]

    def compute() -> Array:
        changes = updates.statistic("l2", count)
        columns = updates.fixed(
            ("columns", len(weights.sites)), lambda: _columns(history, len(updates.sites))
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

    return updates.once(("ratios", count), compute)


def _columns(history: History, size: int) -> NDArray[np.intp]:
    place = {site.path: i for i, site in enumerate(history[Kind.WEIGHT].sites)}
    found = [place.get(site.path, -1) for site in history[Kind.UPDATE].sites]
    return np.array(found, np.intp).reshape(size)


def chance_level(history: History, facts: ModelFacts) -> float:
    """The loss of knowing nothing but how often each answer occurs; NaN if it is not known."""
    return history.once("chance", lambda: _chance_level(history, facts))


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
        return _entropy(share) if 0.0 < share < 1.0 else math.log(2.0)
    # Of several outputs the targets' spread is also that between them, which is known.
    one = last is not None and last.units == 1
    if name in ("mean_squared_error", "mse") and one and Kind.TARGET in history:
        return float(np.nanmedian(history[Kind.TARGET].column("std", 0, 16)) ** 2)
    return math.nan


def _entropy(share: float) -> float:
    """The loss of knowing how often the answer is yes, and nothing else."""
    return -share * math.log(share) - (1.0 - share) * math.log(1.0 - share)


def loss_of_zero(history: History, facts: ModelFacts) -> float:
    """The loss of always answering 0, where it is that of squares; NaN if it is not known."""
    if facts.loss.name not in ("mean_squared_error", "mse") or Kind.TARGET not in history:
        return math.nan
    return float(np.nanmedian(history[Kind.TARGET].column("rms", 0, 4)) ** 2)


def progress(history: History, facts: ModelFacts) -> float:
    """By what share the loss has fallen, as far as that is more than noise.

    NaN until ten are known. For rules whose evidence is elsewhere: where the loss is too
    noisy to tell, it does not speak against them.
    """
    apparent = apparent_progress(history, facts)
    return 0.0 if apparent > 0 and history.losses.is_noise else apparent


def apparent_progress(history: History, facts: ModelFacts) -> float:
    """By what share of its level at the start the loss has fallen; NaN until ten are known.

    A loss that has only come down to that of knowing nothing has made no progress.
    """
    losses, chance = history.losses, chance_level(history, facts)
    if len(losses) >= 10 and 0.95 * chance < losses.recent < 1.05 * chance:
        window = losses.last(10)
        # On its way down it passes there too, and does not stay.
        if abs(float(np.median(window[:5])) - losses.recent) < 0.03 * chance:
            return 1.0 - losses.recent / chance
    return losses.improvement


def has_learned(history: History, facts: ModelFacts, share: float = 0.5) -> bool:
    """Whether the loss is well below that of knowing nothing, or has fallen by that share."""
    return history.once(("learned", share), lambda: _has_learned(history, facts, share))


def _has_learned(history: History, facts: ModelFacts, share: float) -> bool:
    losses = history.losses
    chance = chance_level(history, facts)
    if math.isfinite(chance) and losses.recent < (1.0 - share) * chance:
        return True
    return progress(history, facts) > share


def typical_ratios(history: History, facts: ModelFacts) -> Array:
    """The median of ‖Δw‖/‖w‖ over the matrices in each measured step that is kept."""
    updates = history[Kind.UPDATE]
    kept = len(updates)

    def compute() -> Array:
        known = updates.fixed("typical", lambda: dict[int, float]())
        steps = updates.steps.tolist()
        missing = sum(step not in known for step in steps[-8:])
        count = missing if missing < 8 else kept
        if count:
            ratios = update_ratios(history, facts, count)
            known.update(zip(steps[-count:], map(_median, ratios), strict=True))
        for step in list(known)[: max(len(known) - kept, 0)]:
            del known[step]
        return np.array([known.get(step, np.nan) for step in steps])

    return updates.once("typical", compute)


def is_growing(ratios: Array) -> bool:
    """Whether steps have become larger since the start, as they do in a warm-up."""
    return ratios.size > 3 and float(np.median(ratios[-3:])) > 1.3 * float(np.median(ratios[1:4]))


def never_moved(history: History, facts: ModelFacts, ratio: float) -> bool:
    """Whether no step since the very beginning has changed weights by more than that ratio."""
    table = history[Kind.UPDATE]
    if history.first_step > 1 or table.first_steps:
        return False
    typical = typical_ratios(history, facts)
    return typical.size > 1 and bool(np.nanmax(typical, initial=0.0) < ratio)


def _median(values: Array) -> float:
    there = np.sort(values[~np.isnan(values)])
    middle = there.size // 2
    return float(there[middle] + there[~middle]) / 2.0 if there.size else math.nan
