"""Inputs of an unsuitable scale, and data that is not shuffled."""

import re

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import ValueTable

# Layers that accept any scale, or take integers as identifiers.
_ACCEPTS_ANY = re.compile(
    r"embed|norm|rescal|discret|hash|lookup|vector|encod|resiz|crop", re.IGNORECASE
)


@rule(
    "input-scale",
    remedy=(
        "Scale the inputs to about 1: subtract the mean and divide by the standard deviation, or "
        "put keras.layers.Normalization or Rescaling first."
    ),
    thresholds={
        "large": Threshold(100.0, "RMS of the inputs; initializations expect about 1"),
        "small": Threshold(1e-4, "RMS of the inputs"),
        "huge": Threshold(1e4, "RMS of the inputs; reported at once, unless the loss has halved"),
    },
    needs=[Kind.INPUT],
)
def input_scale(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """The inputs are far from 1 in size, no layer scales them, and the loss is flat."""
    table = history[Kind.INPUT]
    if table.measured < 3:
        return
    first = facts.first_layer
    if first is not None and _ACCEPTS_ANY.search(first.class_name or ""):
        return
    sizes = np.median(table.statistic("rms", 3), axis=0)
    large = sizes > limits.per_site("large", table.sites)
    strange = large | ((sizes < limits.per_site("small", table.sites)) & (sizes > 0))
    if not strange.any():
        return
    worst = int(np.argmax(np.where(strange, np.abs(np.log(np.maximum(sizes, 1e-300))), -1.0)))
    # Integers that identify something, such as words: their size means nothing.
    if first is None and _may_be_indices(table, worst):
        return
    so_far = judgement(history, facts)
    is_huge = sizes[worst] > limits["huge"] and not so_far.has_learned
    if not (so_far.is_flat or is_huge):
        return
    yield Symptom(
        title=f"The inputs have the wrong scale: their RMS is {sizes[worst]:.3g}.",
        evidence={
            "RMS": float(sizes[worst]),
            "smallest": float(table.latest("min")[worst]),
            "largest": float(table.latest("max")[worst]),
        },
        sites=table.sites_where(strange),
        since=table.since(3),
    )


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
    if same < limits["share"] or judgement(history, facts).has_learned:
        return
    yield Symptom(
        title=f"The data is not shuffled: {same:.0%} of the batches have a single target value.",
        evidence={"smallest target": float(low.min()), "largest target": float(high.max())},
        sites=list(table.sites),
        since=table.since(count),
    )


def _may_be_indices(table: ValueTable, column: int) -> bool:
    """Whether all inputs so far could be indices: at least 0, with whole sums."""
    low, total = table.column("min", column, 8), table.column("sum", column, 8)
    return bool(np.all(low >= 0) and np.all(total == np.round(total)))
