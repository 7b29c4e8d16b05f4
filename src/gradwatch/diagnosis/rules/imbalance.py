"""One layer that takes all the steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.quantities import has_learned, progress, update_ratios
from gradwatch.diagnosis.rule import Threshold, rule


@rule(
    "imbalance",
    remedy=(
        "Bring the layers to one scale: initialise them alike, normalise between them, or give "
        "this layer its own, smaller learning rate."
    ),
    thresholds={
        "factor": Threshold(1000.0, "between one layer's update to weight and the others' median"),
        "ratio": Threshold(0.03, "of update to weight: a layer that hardly moves dwarfs nobody"),
        "measured steps": Threshold(5, "a layer that starts near 0 takes large steps at first"),
        "improvement": Threshold(0.05, "a network that learns is left alone"),
    },
    needs=[Kind.UPDATE],
)
def imbalance(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """One layer's updates dwarf the others', relative to the weights, and the loss is flat."""
    table = history[Kind.UPDATE]
    count = int(limits["measured steps"])
    if table.measured <= count or not progress(history, facts) < limits["improvement"]:
        return
    if has_learned(history, facts):
        return
    latest = update_ratios(history, facts, 1)[0]
    # Most of the time nobody stands out, and the rest need not be worked out.
    if not np.nanmax(latest, initial=0.0) > limits["ratio"]:
        return
    ratios = update_ratios(history, facts, count)
    there = np.all(ratios > 0, axis=0)
    if there.sum() < 3:
        return
    typical = np.median(ratios[:, there], axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        large = np.all(
            (ratios > limits.per_site("factor", table.sites) * typical)
            & (ratios > limits["ratio"]),
            axis=0,
        )
    if not large.any():
        return
    sites = [table.sites[i] for i in np.flatnonzero(large)]
    worst = int(np.nanargmax(np.where(large, ratios[-1], np.nan)))
    yield Symptom(
        title=f"The updates of {table.sites[worst].layer} dwarf those of all other layers.",
        evidence={
            "its update to weight": float(ratios[-1, worst]),
            "median of all": float(typical[-1, 0]),
        },
        sites=sites,
        layer=table.sites[worst].layer,
        since=table.since(count),
    )
