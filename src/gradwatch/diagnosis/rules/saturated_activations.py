"""Sigmoid and tanh units at their bounds, where their slope is 0."""

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.quantities import known_fall
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import Mask

_ATTENTION = "attention_peak"


@rule(
    "saturated-activations",
    remedy=(
        "Scale the inputs to about 1, initialize with smaller weights (Glorot), lower the learning "
        "rate, or normalize before the activation."
    ),
    thresholds={
        "share": Threshold(0.5, "of a hidden layer's outputs within 0.01 of a bound"),
        "share at start": Threshold(0.8, "since the first step; reported even if the loss falls"),
        "measured steps": Threshold(3, "one batch may be odd"),
        "attention": Threshold(0.95, "of a query's weight for one key, before anything is learned"),
    },
)
def saturated_activations(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Most outputs of a hidden sigmoid or tanh layer are at a bound, and the loss is flat.

    Or attention gives all weight to one key from the start.
    """
    yield from _saturated_attention(history, limits)
    table = history[Kind.SATURATED]
    count = int(limits["measured steps"])
    if table.measured <= count or not history.is_fresh(Kind.SATURATED):
        return
    if judgement(history, facts).is_flat:
        shares = table.statistic("mean", count)
        stuck = np.all(shares > limits.per_site("share", table.sites), axis=0)
    elif not table.has_forgotten:
        # Saturated since the first step: the other layers learn without these units.
        shares = table.statistic("mean", len(table))
        stuck = np.all(shares > limits.per_site("share at start", table.sites), axis=0)
    else:
        return
    stuck &= table.cached_per_sites(
        ("hidden", len(history[Kind.OUTPUT].sites)), lambda: _is_hidden(history, facts)
    )
    if not stuck.any():
        return
    first = int(np.flatnonzero(stuck)[0])
    sites = table.sites_where(stuck)
    yield Symptom(
        title=f"{shares[-1, first]:.0%} of the outputs of {sites[0].layer} are saturated.",
        evidence={
            "saturated share": float(shares[:, first].min()),
            "layers": len(sites),
            **known_fall(history, facts),
        },
        sites=sites,
        layer=sites[0].layer,
        since=table.since(count),
    )


def _saturated_attention(history: History, limits: Limits) -> Symptoms:
    known = (x for name, x in history.numbers.items() if name.rpartition("/")[2] == _ATTENTION)
    for series in known:
        peaks = [value for _, value in series]
        if min(peaks) > limits["attention"]:
            yield Symptom(
                title=f"Attention is saturated from the start: a query gives {min(peaks):.0%} of "
                "its weight to one key.",
                evidence={"largest weight": min(peaks), "measured steps": len(peaks)},
                since=series[0][0],
                remedy="Divide the logits of attention by the square root of the keys' size, and "
                "initialize queries and keys with small weights.",
                about="attention",
            )


def _is_hidden(history: History, facts: ModelFacts) -> Mask:
    """For each site, whether it is not an output of the model: outputs may saturate."""
    outputs = facts.outputs or [site.layer for site in history[Kind.OUTPUT].sites][-1:]
    return np.array([site.layer not in outputs for site in history[Kind.SATURATED].sites], bool)
