"""Variables that get no gradient at all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradwatch.core import FIELDS, Kind, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.network_order import matrices
from gradwatch.diagnosis.quantities import has_learned
from gradwatch.diagnosis.rule import Threshold, rule

_COUNT = FIELDS.index("count")
_SUM_ABS = FIELDS.index("sum_abs")
_NONFINITE = [FIELDS.index(name) for name in ("nan", "posinf", "neginf")]


@rule(
    "zero-gradients",
    remedy=(
        "The loss does not depend on these variables: look for weights that start at 0, a "
        "stop_gradient or detach, an output that the loss does not use, or units that are dead."
    ),
    thresholds={
        "measured steps": Threshold(
            3, "a last layer that starts at 0 hides the others for a step, and is healthy"
        ),
    },
    needs=[Kind.GRADIENT],
)
def zero_gradients(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """The gradient of trainable matrices is exactly 0, or there is none."""
    table = history[Kind.GRADIENT]
    count = int(limits["measured steps"])
    # Never on the first measured step.
    if table.measured <= count:
        return
    mixing = matrices(table, facts)
    if not mixing.any():
        return
    rows = table.rows(count)
    # Of what was not measured it is NaN, and nothing can be said.
    zero = (rows[-1, :, _SUM_ABS] == 0) & mixing
    if not zero.any():
        return
    without = np.all((rows[:, :, _SUM_ABS] == 0) & (rows[:, :, _NONFINITE].sum(-1) == 0), axis=0)
    zero &= without
    # All samples right by a margin gives 0 too: a network that has learned is done.
    if not zero.any() or has_learned(history, facts):
        return
    is_all = bool(zero[mixing].all())
    chosen = [table.sites[i] for i in np.flatnonzero(zero)]
    layers = list(dict.fromkeys(site.layer for site in chosen))
    nowhere = bool(without.all())
    missing = int((rows[-1, zero, _COUNT] == 0).sum())
    yield Symptom(
        title="No variable gets a gradient."
        if nowhere
        else f"No gradient reaches {_enumerated(layers)}.",
        evidence={
            "variables without gradient": len(chosen),
            "of": int(mixing.sum()),
            "not connected to the loss": missing,
            "measured steps": count,
        },
        sites=chosen,
        # What cuts it off is right above the last one of them.
        layer=layers[-1],
        since=table.since(count),
        severity=Severity.ERROR if is_all else None,
    )


def _enumerated(layers: list[str]) -> str:
    return layers[0] if len(layers) == 1 else f"{layers[0]} and {len(layers) - 1} more layers"
