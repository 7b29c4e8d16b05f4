"""A model that answers the same whatever it is asked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.quantities import progress
from gradwatch.diagnosis.rule import Threshold, rule


@rule(
    "constant-output",
    severity=Severity.ERROR,
    remedy=(
        "Look at the last activation: softmax over one unit is always 1 (use sigmoid), ReLU may be "
        "0 for all, a sigmoid may be driven to its bound. Then at what reaches the last layer."
    ),
    thresholds={
        "spread": Threshold(1e-6, "between largest and smallest output, relative: rounding alone"),
        "measured steps": Threshold(3, "a last layer that starts at 0 is constant for a step"),
    },
    needs=[Kind.OUTPUT],
)
def constant_output(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """All outputs of the model, of all samples, are one number, and the targets are not."""
    table = history[Kind.OUTPUT]
    count = int(limits["measured steps"])
    if table.measured <= count:
        return
    # Which layer is the last one may be a guess; the loss then has to show it too.
    if not facts.outputs and not progress(history, facts) < 0.05:
        return
    for i in table.fixed("last", lambda: _last_places(history, facts)):
        low, high = table.column("min", i, count), table.column("max", i, count)
        size = np.maximum(np.abs(low), np.abs(high))
        site = table.sites[i]
        if not np.all(high - low <= limits.at("spread", site.path) * size):
            continue
        if table.column("count", i, count).min() < 2 or _targets_are_constant(history, count):
            continue
        yield Symptom(
            title=f"The model returns {high[-1]:.6g} for everything it is given.",
            evidence={"smallest output": float(low[-1]), "largest output": float(high[-1])},
            sites=[site],
            layer=site.layer,
            since=_since(history, i, limits.at("spread", site.path)),
            about=site.path,
        )


def _since(history: History, place: int, spread: float) -> int:
    """The first measured step since which it has been constant."""
    table = history[Kind.OUTPUT]
    low, high = table.column("min", place, len(table)), table.column("max", place, len(table))
    varied = np.flatnonzero(~(high - low <= spread * np.maximum(np.abs(low), np.abs(high))))
    return int(table.steps[varied[-1] + 1 if varied.size else 0])


def _last_places(history: History, facts: ModelFacts) -> list[int]:
    sites = history[Kind.OUTPUT].sites
    if facts.outputs:
        return [i for i, site in enumerate(sites) if site.layer in set(facts.outputs)]
    return [len(sites) - 1]


def _targets_are_constant(history: History, count: int) -> bool:
    targets = history[Kind.TARGET]
    if not len(targets):
        return False
    low, high = targets.statistic("min", count), targets.statistic("max", count)
    return bool(np.all(np.nanmin(low, 0) == np.nanmax(high, 0)))
