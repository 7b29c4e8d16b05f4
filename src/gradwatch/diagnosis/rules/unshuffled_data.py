"""Batches that contain one class each."""

from __future__ import annotations

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.rule import Limits, Threshold, rule


@rule(
    "unshuffled-data",
    remedy="Shuffle the data: the model forgets each class while it learns the next one.",
    thresholds={
        "share": Threshold(0.5, "of the measured steps whose targets are all the same"),
        "measured steps": Threshold(8, "one batch may have one class by chance"),
        "targets": Threshold(8, "in a batch; fewer are often all the same"),
    },
    needs=[Kind.TARGET],
)
def unshuffled_data(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Most batches have a single target value, which differs from batch to batch."""
    table = history[Kind.TARGET]
    count = int(limits["measured steps"])
    if len(table) < count or len(table.sites) != 1:
        return
    low, high = table.column("min", 0, count), table.column("max", 0, count)
    if table.column("count", 0, 1)[0] < limits["targets"] or low.min() == high.max():
        return
    same = float(np.mean(low == high))
    if same < limits["share"]:
        return
    yield Symptom(
        title=f"The data is not shuffled: {same:.0%} of the batches have a single target value.",
        evidence={"smallest target": float(low.min()), "largest target": float(high.max())},
        sites=list(table.sites),
        since=table.since(count),
    )
