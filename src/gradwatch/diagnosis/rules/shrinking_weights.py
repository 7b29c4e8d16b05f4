"""Weights that decay, or regularisation, takes to nothing."""

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.network_order import matrices
from gradwatch.diagnosis.quantities import known_fall
from gradwatch.diagnosis.rule import Limits, Threshold, rule


@rule(
    "shrinking-weights",
    remedy=(
        "Lower the weight decay or regularisation, by a factor of 10 or more; of Adam with "
        "weight_decay use AdamW, and leave biases and normalizations out."
    ),
    thresholds={
        "left": Threshold(0.3, "of the norm that a matrix had; training changes norms by less"),
        "share": Threshold(0.7, "of the matrices; a single one may be pruned"),
        "measured steps": Threshold(5, "norms may fall at first"),
        "growth": Threshold(2.0, "of the norm before it shrinks; after a blow-up it is more"),
        "losses": Threshold(10, "before the loss is called flat"),
    },
    needs=[Kind.WEIGHT],
)
def shrinking_weights(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """The weights shrink to a fraction of their size, and nothing is learned."""
    table = history[Kind.WEIGHT]
    count = int(limits["measured steps"])
    if table.measured <= count or len(history.losses) < limits["losses"]:
        return
    norms = table.statistic("l2", len(table))
    chosen = matrices(table, facts) & (norms[0] > 0)
    if not chosen.any():
        return
    left = norms[-1, chosen] / norms[0, chosen]
    has_shrunk = left < limits["left"]
    if not has_shrunk.mean() >= limits["share"]:
        return
    judged = judgement(history, facts)
    if judged.has_learned or (judged.has_moved and not judged.is_flat):
        return
    # After a blow-up, they would shrink back.
    highest = norms.max(axis=0)
    if not np.median(highest[chosen] / norms[0, chosen]) < limits["growth"]:
        return
    worst = int(np.flatnonzero(chosen)[int(np.nanargmin(left))])
    yield Symptom(
        title=f"The weights shrink to nothing: {np.median(left):.1%} of their size is left.",
        evidence={
            "norm left": float(np.median(left)),
            "matrices that shrink": int(has_shrunk.sum()),
            "matrices in total": int(chosen.sum()),
            **known_fall(history, facts),
        },
        sites=table.sites_where(chosen),
        layer=table.sites[worst].layer,
        since=int(table.steps[int(np.argmax(np.median(norms[:, chosen], axis=1)))]),
    )
