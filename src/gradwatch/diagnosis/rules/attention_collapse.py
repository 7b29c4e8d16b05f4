"""Attention that gives all weight to one key, or whose scores are beyond any use."""

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import Mask

_GROWTH = 2.0
"""Times the largest score in the first measured step that is kept."""


@rule(
    "attention-collapse",
    remedy=(
        "Lower the learning rate, or lengthen its warm-up. Normalize queries and keys (QK-norm) or "
        "cap the scores, and divide them by the square root of the keys' size."
    ),
    thresholds={
        "entropy": Threshold(0.05, "nats, in the mean of queries and heads: one key gets 99 %"),
        "logit": Threshold(10.0, "of a query that has decided; with a single key there is no need"),
        "huge logit": Threshold(100.0, "e to the 100: bfloat16 resolves no more than 0.5 there"),
        "measured steps": Threshold(15, "in a row; the loss must have had time to fall"),
    },
    needs=[Kind.ATTENTION_LOGIT, Kind.ATTENTION_ENTROPY],
)
def attention_collapse(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Attention gives all weight to one key for all queries, or its scores grow beyond use."""
    logits, entropies = history[Kind.ATTENTION_LOGIT], history[Kind.ATTENTION_ENTROPY]
    count = int(limits["measured steps"])
    if min(len(logits), len(entropies)) < count:
        return
    largest, entropy = logits.statistic("max", count), entropies.statistic("mean", count)
    row = {site.path: i for i, site in enumerate(entropies.sites)}
    places = np.array([row.get(site.path, -1) for site in logits.sites], np.intp)
    entropy = np.where(places >= 0, entropy[:, places], np.nan)
    is_one_key = entropy <= limits.per_site("entropy", logits.sites)
    is_one_key &= largest >= limits.per_site("logit", logits.sites)
    decided: Mask = np.all(is_one_key, axis=0)
    huge: Mask = np.all(largest >= limits.per_site("huge logit", logits.sites), axis=0)
    judged = judgement(history, facts)
    learns = judged.has_learned or (judged.has_moved and not judged.is_flat)
    start = logits.statistic("max", len(logits))[0]
    for chosen, about in ((decided, "entropy"), (huge & ~decided, "logit")):
        if not chosen.any():
            continue
        worst = int(np.nanargmax(np.where(chosen, largest[-1], -np.inf)))
        site = logits.sites[worst]
        # To look up one key may be what a model has learned; scores without end are not.
        is_growing = about == "logit" and bool(largest[-1, worst] > _GROWTH * start[worst])
        title = (
            f"Attention of {site.path} has collapsed: nearly every query gives all its weight to "
            "one key."
            if about == "entropy"
            else f"Attention scores of {site.path} reach {largest[-1, worst]:.3g}."
        )
        yield Symptom(
            title=title,
            evidence={
                "largest score": float(largest[-1, worst]),
                "mean entropy": float(entropy[-1, worst]),
                "layers": int(chosen.sum()),
            },
            sites=[site, *(s for s in logits.sites_where(chosen) if s != site)],
            layer=site.layer,
            since=logits.since(count),
            severity=Severity.INFO if learns and not is_growing else None,
            about=about,
        )
