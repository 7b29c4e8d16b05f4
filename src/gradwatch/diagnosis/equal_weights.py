"""Weights that start equal: units that are alike stay alike."""

from collections.abc import Iterator

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.network_order import enumerate_layers, matrices
from gradwatch.diagnosis.quantities import not_called, without_gradient
from gradwatch.diagnosis.value_table import Mask, ValueTable

_STEPS = 3
"""Measured steps after which weights that start with 0 have moved, as those of a last layer do."""


def equal_weights(history: History, facts: ModelFacts) -> Iterator[Symptom]:
    """Matrices whose elements are all the same number, and which therefore get no gradient."""
    table = history[Kind.WEIGHT]
    if not history.is_fresh(Kind.WEIGHT):
        return
    # Weights that decay become 0, too, but later.
    at_start = table.cached_per_sites("equal at the start", lambda: _are_equal(table, 1))
    if table.measured <= _STEPS or not at_start.any():
        return
    equal = at_start & _are_equal(table, _STEPS)
    if not equal.any():
        return
    mixing = matrices(table, facts)
    chosen = equal & mixing & without_gradient(table, history, _STEPS)
    chosen &= ~not_called(table, history, facts, _STEPS) & _is_used(table, history)
    if not chosen.any():
        return
    sites = table.sites_where(chosen)
    number = float(table.latest("max")[chosen][0])
    yield Symptom(
        f"All weights of {enumerate_layers(list(dict.fromkeys(s.layer for s in sites)))} are "
        f"{number:g} and stay so: units that are alike get no gradient that could tell them apart.",
        {"weight matrices": len(sites), "weight matrices in total": int(mixing.sum())},
        sites=sites,
        layer=sites[0].layer,
        since=history.first_step,
        severity=Severity.ERROR if 2 * chosen.sum() > mixing.sum() else Severity.WARNING,
        remedy="Initialize weights with random numbers (Glorot, He). Only a last layer, or the "
        "last one of a branch beside a residual connection, may start with 0.",
        about="equal weights",
    )


def _is_used(table: ValueTable, history: History) -> Mask:
    """For each variable, whether it has a gradient, of zeros perhaps: the loss depends on it."""
    gradients = history[Kind.GRADIENT]
    if not len(gradients):
        return np.zeros(len(table.sites), bool)
    paths = {site.path for site in gradients.sites_where(gradients.latest("count") > 0)}
    return np.array([site.path in paths for site in table.sites], bool)


def _are_equal(table: ValueTable, count: int) -> Mask:
    """For each variable of several elements, whether they were all the same in the last steps."""
    low, high = table.statistic("min", count), table.statistic("max", count)
    are_equal: Mask = np.all(low == high, axis=0) & (table.latest("count") > 1)
    return are_equal
