"""A training step that computes a loss and gives its gradients to no optimizer."""

from collections.abc import Iterator

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.network_order import matrices

_MEASURED, _LOSSES = 8, 30
"""Measured steps without any change, and losses; some steps may only accumulate gradients."""


def without_updates(history: History, facts: ModelFacts) -> Iterator[Symptom]:
    """No optimizer was ever given a gradient, and no weight has changed, although some are to."""
    table = history[Kind.WEIGHT]
    if any(kind in history for kind in (Kind.GRADIENT, Kind.APPLIED_GRADIENT, Kind.UPDATE)):
        return
    # Without a step of the user's own, a loop is told what is measured of gradients.
    if not facts.loss.is_of_own_step or not facts.parameters.trainable:
        return
    if table.measured < _MEASURED or table.has_forgotten or len(history.losses) < _LOSSES:
        return
    chosen, rows = matrices(table, facts), table.rows(len(table))
    if not chosen.any() or not np.all((rows == rows[-1]) | np.isnan(rows)):
        return
    sites = table.sites_where(chosen)
    yield Symptom(
        title=f"No weight has changed in {history.step:,} steps: the training step gives its "
        "gradients to no optimizer.",
        evidence={
            "trainable parameters": facts.parameters.trainable,
            "measured steps": table.measured,
        },
        sites=sites,
        layer=sites[0].layer,
        since=history.first_step,
        severity=Severity.ERROR,
        remedy="Call self.optimizer.apply(gradients, self.trainable_variables) in train_step.",
        about="without updates",
    )
