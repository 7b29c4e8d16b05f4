"""Inputs of a scale that no initialisation is made for."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.quantities import has_learned, progress
from gradwatch.diagnosis.rule import Threshold, rule

# Layers that take any scale, or whole numbers as names.
_TAKES_ANY = re.compile(
    r"embed|norm|rescal|discret|hash|lookup|vector|encod|resiz|crop", re.IGNORECASE
)


@rule(
    "input-scale",
    remedy=(
        "Scale the inputs to about 1: subtract the mean and divide by the standard deviation, or "
        "put keras.layers.Normalization or Rescaling first."
    ),
    thresholds={
        "large": Threshold(100.0, "RMS of the inputs; initialisations are made for about 1"),
        "small": Threshold(1e-4, "RMS of the inputs"),
        "improvement": Threshold(0.05, "a network that learns is left alone"),
        "huge": Threshold(1e4, "RMS of the inputs: said at once, unless the loss falls by half"),
    },
    needs=[Kind.INPUT],
)
def input_scale(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """Inputs are far from 1 in size, with no layer to scale them, and the loss is flat."""
    table = history[Kind.INPUT]
    # Never on the first measured step.
    if table.measured < 3:
        return
    first = facts.first_layer
    if first is not None and _TAKES_ANY.search(first.class_name or ""):
        return
    sizes = np.median(table.statistic("rms", 3), axis=0)
    large = sizes > limits.per_site("large", table.sites)
    strange = large | ((sizes < limits.per_site("small", table.sites)) & (sizes > 0))
    if not strange.any():
        return
    worst = int(np.argmax(np.where(strange, np.abs(np.log(np.maximum(sizes, 1e-300))), -1.0)))
    # Whole numbers that are names, such as words': their size means nothing.
    if first is None and _may_be_names(history, worst):
        return
    flat = progress(history, facts) < limits["improvement"]
    at_once = sizes[worst] > limits["huge"] and not progress(history, facts) > 0.5
    if not (flat or at_once) or has_learned(history, facts):
        return
    yield Symptom(
        title=f"The inputs have the wrong scale: their RMS is {sizes[worst]:.3g}.",
        evidence={
            "RMS": float(sizes[worst]),
            "smallest": float(table.latest("min")[worst]),
            "largest": float(table.latest("max")[worst]),
        },
        sites=[table.sites[i] for i in np.flatnonzero(strange)],
        since=table.since(3),
    )


def _may_be_names(history: History, column: int) -> bool:
    """Whether all inputs seen could be indices: at least 0, and their sums whole."""
    table = history[Kind.INPUT]
    low, total = table.statistic("min", 8)[:, column], table.statistic("sum", 8)[:, column]
    return bool(np.all(low >= 0) and np.all(total == np.round(total)))
