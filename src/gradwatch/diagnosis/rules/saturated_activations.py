"""Sigmoid and tanh units that are driven to their bounds, where they have no slope."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.quantities import has_learned, progress
from gradwatch.diagnosis.rule import Threshold, rule


@rule(
    "saturated-activations",
    remedy=(
        "Scale the inputs to about 1, initialise with smaller weights (Glorot), lower the learning "
        "rate, or normalise before the activation."
    ),
    thresholds={
        "share": Threshold(0.5, "of a hidden layer's outputs within 0.01 of a bound"),
        "share at start": Threshold(0.8, "and ever since; said even if others learn"),
        "measured steps": Threshold(3, "one batch may be odd"),
        "improvement": Threshold(0.05, "a network that learns is left alone"),
    },
    needs=[Kind.SATURATED],
)
def saturated_activations(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """Most outputs of a hidden sigmoid or tanh layer are at a bound, and the loss is flat."""
    table = history[Kind.SATURATED]
    count = int(limits["measured steps"])
    if table.measured <= count:
        return
    is_flat = progress(history, facts) < limits["improvement"]
    if is_flat and not has_learned(history, facts):
        shares = table.statistic("mean", count)
        stuck = np.all(shares > limits.per_site("share", table.sites), axis=0)
    elif not table.first_steps:
        # So from the beginning on: learning goes on past these units.
        shares = table.statistic("mean", len(table))
        stuck = np.all(shares > limits.per_site("share at start", table.sites), axis=0)
    else:
        return
    stuck &= table.fixed(
        ("hidden", len(history[Kind.OUTPUT].sites)), lambda: _is_hidden(history, facts)
    )
    if not stuck.any():
        return
    first = int(np.flatnonzero(stuck)[0])
    chosen = [table.sites[i] for i in np.flatnonzero(stuck)]
    yield Symptom(
        title=f"{shares[-1, first]:.0%} of the outputs of {chosen[0].layer} are saturated.",
        evidence={
            "saturated share": float(shares[:, first].min()),
            "layers": len(chosen),
            "loss improvement": progress(history, facts),
        },
        sites=chosen,
        layer=chosen[0].layer,
        since=table.since(count),
    )


def _is_hidden(history: History, facts: ModelFacts) -> list[bool]:
    """Which sites are of layers whose output is not the model's: there it is an answer."""
    outputs = set(facts.outputs)
    if not outputs:
        paths = [site.layer for site in history[Kind.OUTPUT].sites]
        outputs = set(paths[-1:])
    return [site.layer not in outputs for site in history[Kind.SATURATED].sites]
