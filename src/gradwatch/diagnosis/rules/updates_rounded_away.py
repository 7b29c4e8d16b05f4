"""Weights in low precision that the steps no longer change."""

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.network_order import matrices
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import Array, Mask, ValueTable

Indices = NDArray[np.intp]

_NARROW_BITS = 11
"""Digits of a float16's significand; a bfloat16 has 8, a float32 24."""


@rule(
    "updates-rounded-away",
    remedy=(
        "Keep the weights in float32 and compute in low precision: mixed_bfloat16 in Keras, "
        "torch.autocast in torch. Or use an optimizer with stochastic rounding or Kahan summation."
    ),
    thresholds={
        "share": Threshold(0.9, "of the elements with a gradient; in training that works, fewer"),
        "measured steps": Threshold(15, "the loss must have had time to fall"),
    },
    needs=[Kind.WEIGHT, Kind.UPDATE, Kind.GRADIENT],
)
def updates_rounded_away(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Low-precision weights hardly change: their updates are smaller than what they resolve."""
    updates, count = history[Kind.UPDATE], int(limits["measured steps"])
    if min(history[kind].measured for kind in (Kind.WEIGHT, Kind.UPDATE, Kind.GRADIENT)) < count:
        return
    judged = judgement(history, facts)
    if judged.has_learned or (judged.has_moved and not judged.is_flat) or history.is_warming_up():
        return
    column = {site.path: i for i, site in enumerate(updates.sites)}
    narrow = _is_narrow(history[Kind.WEIGHT], count)
    chosen = narrow & matrices(history[Kind.WEIGHT], facts)
    paths = {site.path for site in history[Kind.WEIGHT].sites_where(chosen)} & column.keys()
    columns = np.array([column[path] for path in sorted(paths, key=column.__getitem__)], np.intp)
    if not columns.size:
        return
    gradients = {site.path: i for i, site in enumerate(history[Kind.GRADIENT].sites)}
    named = [updates.sites[i].path for i in columns]
    where = np.array([gradients.get(path, -1) for path in named], np.intp)
    columns, where = columns[where >= 0], where[where >= 0]
    lost, pushed = _lost(updates, history[Kind.GRADIENT], columns, where, count)
    # What has a gradient and stays as it is, of all that has one.
    total = np.nansum(pushed, axis=1)
    if len(lost) < count or not np.all(total > 0):
        return
    share = np.nansum(lost, axis=1) / total
    if not float(np.median(share)) > limits["share"] or not _is_stepping(history, facts, columns):
        return
    by_site = np.nansum(lost, axis=0) / np.maximum(np.nansum(pushed, axis=0), 1)
    worst = int(np.nanargmax(by_site))
    sites = [updates.sites[i] for i in columns[by_site > limits["share"]]]
    yield Symptom(
        title=f"Updates are rounded away: {np.median(share):.0%} of the weights with a gradient "
        "do not change in a step.",
        evidence={
            "share unchanged": float(np.median(share)),
            "matrices in low precision": int(columns.size),
            "largest update": float(np.nanmax(updates.latest("linf")[columns])),
        },
        sites=sites,
        layer=updates.sites[int(columns[worst])].layer,
        since=updates.since(count),
    )


def _is_narrow(weights: ValueTable, count: int) -> Mask:
    """The weights that are in low precision: their extremes have few binary digits, every time."""
    extremes = [weights.statistic(name, count) for name in ("min", "max")]
    digits = np.stack([np.frexp(np.abs(x))[0] * 2.0**_NARROW_BITS for x in extremes])
    has_few = (digits == np.round(digits)) & np.isfinite(digits)
    # A constant says nothing.
    return np.asarray(has_few.all(axis=(0, 1)) & (extremes[0] != extremes[1]).all(axis=0))


def _lost(
    updates: ValueTable, gradients: ValueTable, columns: Indices, where: Indices, count: int
) -> tuple[Array, Array]:
    """In each step, how many elements with a gradient did not change, and how many have one.

    At least so many: an element without a gradient that changes, as by decay, hides one.
    """
    steps = np.intersect1d(updates.steps[-count:], gradients.steps[-count:])
    of_updates = np.isin(updates.steps[-count:], steps)
    of_gradients = np.isin(gradients.steps[-count:], steps)
    still = updates.statistic("zeros", count)[of_updates][:, columns]
    untouched = gradients.statistic("zeros", count)[of_gradients][:, where]
    sizes = updates.statistic("count", count)[of_updates][:, columns]
    pushed = np.where(np.isfinite(untouched), sizes - untouched, np.nan)
    return np.maximum(still - untouched, 0.0), pushed


def _is_stepping(history: History, facts: ModelFacts, columns: Indices) -> bool:
    """Whether the optimizer makes steps at all: its rate is not 0, or something changes."""
    rates = history.numbers.get("learning_rate", [])
    rate = rates[-1][1] if rates else facts.optimizer.learning_rate
    if rate is not None:
        return rate > 0
    return bool(np.nanmax(history[Kind.UPDATE].latest("linf")[columns]) > 0)
