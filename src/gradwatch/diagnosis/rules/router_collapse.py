"""Mixtures of experts whose router gives nearly all tokens to few experts."""

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import Mask


@rule(
    "router-collapse",
    remedy=(
        "Add a loss that balances the load of experts, and noise to the router's scores; start "
        "the router with small weights, or lower its learning rate."
    ),
    thresholds={
        "dead share": Threshold(0.5, "of the experts get no token of a batch"),
        "used share": Threshold(0.3, "of the experts, as many as would share all tokens equally"),
        "tokens": Threshold(4, "choices for each expert in a batch; of few, some get none"),
        "measured steps": Threshold(30, "in a row; a router may need time to spread tokens"),
    },
    needs=[Kind.EXPERT_LOAD],
)
def router_collapse(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """A router gives nearly all tokens to few experts, for long: the others learn nothing."""
    table, count = history[Kind.EXPERT_LOAD], int(limits["measured steps"])
    if len(table) < count:
        return
    experts, chosen, squares, zeros = (
        table.statistic(name, count) for name in ("count", "sum", "sum_squares", "zeros")
    )
    dead = zeros / experts
    # If n experts share all tokens equally, and the others get none, this is n.
    used = chosen**2 / squares / experts
    is_narrow = (dead >= limits.per_site("dead share", table.sites)) | (
        used <= limits.per_site("used share", table.sites)
    )
    is_narrow &= (chosen >= limits["tokens"] * experts) & (experts > 1)
    collapsed: Mask = np.all(is_narrow, axis=0)
    if not collapsed.any():
        return
    worst = int(np.argmin(np.where(collapsed, used.mean(axis=0), np.inf)))
    site, total = table.sites[worst], int(experts[-1, worst])
    busiest = table.latest("max")[worst]
    yield Symptom(
        title=f"The router {site.path} uses about {used[:, worst].mean() * total:.2g} of its "
        f"{total} experts.",
        evidence={
            "experts": total,
            "experts without a token": float(np.median(zeros[:, worst])),
            "tokens of the busiest expert": float(busiest),
            "choices in the batch": float(chosen[-1, worst]),
            "routers": int(collapsed.sum()),
        },
        sites=[site, *(s for s in table.sites_where(collapsed) if s != site)],
        layer=site.layer,
        since=table.since(count),
    )
