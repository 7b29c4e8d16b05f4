"""Numbers that several rules use."""

import math

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.losses import median
from gradwatch.diagnosis.network_order import matrices
from gradwatch.diagnosis.value_table import Array, Mask, ValueTable

_FEW = 0.01
"""Of all numbers that are trained; a layer has more."""


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


def known_fall(history: History, facts: ModelFacts) -> dict[str, float]:
    """By how much the loss has fallen, as evidence; nothing while it is not known."""
    share = judgement(history, facts).fall
    return {"loss improvement": share} if math.isfinite(share) else {}


def not_called(table: ValueTable, history: History, facts: ModelFacts, count: int) -> Mask:
    """The variables of layers that the last steps have not called.

    Those are spare parts, which many models have, or are called now and then. So are the few
    numbers that a module holds itself, such as weights of losses, if no loss comes from them.
    """
    outputs, known = history[Kind.OUTPUT], set(facts.parameters.uncalled)
    spare = _spare_numbers(table, history, facts, count)
    if known:
        spare |= np.array([site.layer in known for site in table.sites], bool)
        return spare
    if not len(outputs):
        return spare
    is_called: Mask = np.any(np.isfinite(outputs.statistic("count", count)), axis=0)
    called = {site.layer for site in outputs.sites_where(is_called)}
    spare |= np.array([site.layer not in called for site in table.sites], bool)
    return spare


def _spare_numbers(table: ValueTable, history: History, facts: ModelFacts, count: int) -> Mask:
    """The small variables of no known layer that the loss does not depend on."""
    sizes = history[Kind.WEIGHT].latest("count") if Kind.WEIGHT in history else np.empty(0)
    gradients = history[Kind.GRADIENT]
    if not facts.layers or not sizes.size or not len(gradients):
        return np.zeros(len(table.sites), bool)
    is_apart = np.all(gradients.statistic("count", count) == 0, axis=0)
    few = history[Kind.WEIGHT].sites_where(sizes < _FEW * np.nansum(sizes))
    paths = {site.path for site in gradients.sites_where(is_apart)}
    paths &= {site.path for site in few if facts.layer(site.layer) is None}
    return np.array([site.path in paths for site in table.sites], bool)


def without_gradient(table: ValueTable, history: History, count: int) -> Mask:
    """The sites whose variable has received no gradient in the last measured steps."""
    gradients = history[Kind.GRADIENT]
    if not len(gradients):
        return np.zeros(len(table.sites), bool)
    is_zero: Mask = np.all(gradients.statistic("sum_abs", count) == 0, axis=0)
    paths = {site.path for site in gradients.sites_where(is_zero)}
    return np.array([site.path in paths for site in table.sites], bool)


def moved_between(table: ValueTable, history: History, count: int) -> Mask:
    """The variables that measured steps leave as they are, and the steps between them do not.

    A loop may leave out steps now and then, and those that are measured among them.
    """
    updates, weights = history[Kind.UPDATE], history[Kind.WEIGHT]
    rows = weights.rows(count)
    if len(rows) < 2 or not len(updates):
        return np.zeros(len(table.sites), bool)
    differ = np.any((rows != rows[-1]) & ~np.isnan(rows), axis=(0, 2))
    moved = {site.path for site in weights.sites_where(differ)}
    rests = np.all(updates.statistic("sum_abs", count) == 0, axis=0)
    moved &= {site.path for site in updates.sites_where(rests)}
    return np.array([site.path in moved for site in table.sites], bool)


def has_one_sample(history: History, since: int) -> bool:
    """Whether the samples of each batch have all been the same since a step."""
    spreads, sizes = (history.numbers.get(name, ()) for name in ("input_spread", "batch_size"))
    if not spreads or not sizes or sizes[-1][1] < 2:
        return False
    return spreads[-1][1] == 0 and spreads[-1][0] <= since


def are_constant(table: ValueTable, count: int) -> bool:
    """Whether each of the last steps was given one number for all elements of each tensor."""
    low, high = table.statistic("min", count), table.statistic("max", count)
    is_known = ~np.isnan(low).any(0)
    return bool(is_known.any() and np.all((low == high)[:, is_known]))
