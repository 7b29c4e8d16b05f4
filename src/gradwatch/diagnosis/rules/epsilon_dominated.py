"""Second moments that are of no importance: epsilon is above their roots."""

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.network_order import matrices
from gradwatch.diagnosis.rule import Limits, Threshold, rule


@rule(
    "epsilon-dominated",
    severity="info",
    remedy=(
        "Lower epsilon (1e-8 or less, in float32), or scale the loss up: where gradients are "
        "smaller than epsilon, Adam makes small steps like SGD with a rate of lr / epsilon."
    ),
    thresholds={
        "share": Threshold(0.9, "of the elements of all matrices"),
        "measured steps": Threshold(15, "the loss must have had time to fall"),
    },
    needs=[Kind.EPSILON_RULED, Kind.GRADIENT],
)
def epsilon_dominated(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Epsilon is above the root of the second moment almost everywhere: steps are small."""
    table, count = history[Kind.EPSILON_RULED], int(limits["measured steps"])
    judged = judgement(history, facts)
    if judged.has_learned or (judged.has_moved and not judged.is_flat) or table.measured < count:
        return
    chosen = matrices(table, facts)
    gradients = {
        s.path: x
        for s, x in zip(
            history[Kind.GRADIENT].sites, history[Kind.GRADIENT].latest("l2"), strict=True
        )
    }
    # Without a gradient there is nothing for epsilon to rule.
    chosen &= np.array([gradients.get(site.path, 0.0) > 0 for site in table.sites], bool)
    if not chosen.any():
        return
    ruled = np.nansum(table.statistic("sum", count)[:, chosen], axis=1)
    share = ruled / np.nansum(table.statistic("count", count)[:, chosen], axis=1)
    if not float(np.min(share)) > limits["share"]:
        return
    sites = table.sites_where(chosen)
    yield Symptom(
        title=f"Epsilon rules the steps of {np.median(share):.0%} of the weights.",
        evidence={"share of elements": float(np.median(share)), "variables": len(sites)},
        sites=sites,
        layer=sites[0].layer,
        since=table.since(count),
    )
