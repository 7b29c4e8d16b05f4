"""One layer's updates dominate all others."""

from __future__ import annotations

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.quantities import has_learned, progress, update_ratios
from gradwatch.diagnosis.rule import Limits, Threshold, rule


@rule(
    "imbalance",
    remedy=(
        "Bring the layers to one scale: initialize them alike, normalize between them, or give "
        "this layer its own, smaller learning rate."
    ),
    thresholds={
        "factor": Threshold(1000.0, "between one layer's update ratio and the median of all"),
        "ratio": Threshold(0.03, "of update to weight; a layer that hardly moves does not matter"),
        "measured steps": Threshold(5, "a layer that starts near 0 takes large steps at first"),
        "improvement": Threshold(0.05, "a network that learns is left alone"),
    },
    needs=[Kind.UPDATE],
)
def imbalance(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """One layer's updates relative to its weights dwarf all others, and the loss is flat."""
    table = history[Kind.UPDATE]
    count = int(limits["measured steps"])
    if table.measured <= count or not progress(history, facts) < limits["improvement"]:
        return
    if has_learned(history, facts):
        return
    # A quick test that is enough at most steps.
    if not np.nanmax(update_ratios(history, facts, 1)[0], initial=0.0) > limits["ratio"]:
        return
    ratios = update_ratios(history, facts, count)
    measured = np.all(ratios > 0, axis=0)
    if measured.sum() < 3:
        return
    typical = np.median(ratios[:, measured], axis=1, keepdims=True)
    least = np.maximum(limits.per_site("factor", table.sites) * typical, limits["ratio"])
    large = np.all(ratios > least, axis=0)
    if not large.any():
        return
    worst = int(np.nanargmax(np.where(large, ratios[-1], np.nan)))
    yield Symptom(
        title=f"The updates of {table.sites[worst].layer} dwarf those of all other layers.",
        evidence={
            "update ratio": float(ratios[-1, worst]),
            "median update ratio": float(typical[-1, 0]),
        },
        sites=table.sites_where(large),
        layer=table.sites[worst].layer,
        since=table.since(count),
    )
