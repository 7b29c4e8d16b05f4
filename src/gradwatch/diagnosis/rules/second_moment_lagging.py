"""Second moments that are far behind the gradients: the steps are too large, the loss not yet."""

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import Array, Mask, ValueTable

Steps = NDArray[np.int64]

_NOW = 8
"""The newest measured steps, which are compared with those before."""


@rule(
    "second-moment-lagging",
    remedy=(
        "Lower beta_2 (0.99 or 0.95), lower the learning rate until the second moment has caught "
        "up, or limit the size of updates: their RMS, as Adafactor does, or their norm."
    ),
    thresholds={
        "rms": Threshold(3.0, "of the gradient / root of the second moment: 1 if it keeps up"),
        "rise": Threshold(2.0, "times the largest such rms of the variable before"),
        "update rise": Threshold(1.4, "times its largest update before: steps do get larger"),
        "measured steps": Threshold(30, "to know what is usual, and to be past the first steps"),
        "elements": Threshold(64, "of a variable; the rms of a few numbers is large by chance"),
    },
    needs=[Kind.NORMALIZED_GRADIENT],
)
def second_moment_lagging(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Gradients far exceed what the second moment remembers, and steps grow: a spike may follow."""
    table = history[Kind.NORMALIZED_GRADIENT]
    if len(table) < limits["measured steps"]:
        return
    sizes, usual = table.newest_and_before("rms", _NOW)
    steps = table.steps[-_NOW:]
    lags = (sizes > limits["rms"]) & (sizes > limits["rise"] * usual)
    lags &= np.nan_to_num(table.latest("count")) >= limits["elements"]
    lags &= ~_in_spikes(history, steps)[:, None]
    if not lags.any():
        return
    growth = _growth_of_updates(history, table, steps)
    lags &= ~(growth < limits["update rise"])  # Where no updates are measured, it is unknown.
    if not lags.any():
        return
    first = int(np.flatnonzero(lags.any(axis=1))[0])
    worst = int(np.nanargmax(np.where(lags, sizes, -1.0).max(axis=0)))
    when = int(np.nanargmax(np.where(lags[:, worst], sizes[:, worst], -1.0)))
    chosen: Mask = np.any(lags, axis=0)
    evidence = {
        "rms of gradient / root of second moment": float(sizes[when, worst]),
        "largest before": float(usual[worst]),
    }
    if np.isfinite(growth[when, worst]):
        evidence["update, times the largest before"] = float(growth[when, worst])
    site = table.sites[worst]
    yield Symptom(
        title=f"The second moment of {site.path} lags behind: its gradients are "
        f"{sizes[when, worst]:.3g} times as large as it says.",
        evidence=evidence,
        sites=[site, *(s for s in table.sites_where(chosen) if s != site)],
        layer=site.layer,
        since=int(steps[first]),
    )


def _in_spikes(history: History, steps: Steps) -> Mask:
    """The steps in which the loss tells already: an odd batch, or what has been warned of."""
    found = np.zeros(len(steps), bool)
    for spike in history.losses.spikes.kept:
        found |= (steps >= spike.step) & (steps <= (spike.end or np.inf))
    return found


def _growth_of_updates(history: History, table: ValueTable, steps: Steps) -> Array:
    """The size of updates relative to the largest before; NaN where it is not known."""
    updates = history[Kind.UPDATE]
    growth = np.full((len(steps), len(table.sites)), np.nan)
    if len(updates) <= _NOW:
        return growth
    column = {site.path: i for i, site in enumerate(updates.sites)}
    columns = np.array([column.get(site.path, -1) for site in table.sites], np.intp)
    sizes, usual = updates.newest_and_before("rms", _NOW)
    known = np.isin(steps, updates.steps[-_NOW:])
    if np.array_equal(steps[known], updates.steps[-_NOW:]):
        growth[known] = np.where(columns >= 0, (sizes / usual)[:, columns], np.nan)
    return growth
