"""Gradients that grow out of all proportion, but are finite still."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradwatch.core import FIELDS, Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.quantities import chance_level, has_learned, loss_of_zero, progress
from gradwatch.diagnosis.rule import Threshold, rule

_SUM_SQUARES = FIELDS.index("sum_squares")


@rule(
    "exploding-gradients",
    remedy=(
        "Clip gradients by their norm (clipnorm=1), lower the learning rate, or initialise with "
        "smaller weights; in recurrent networks use LSTM or GRU."
    ),
    thresholds={
        "growth": Threshold(100.0, "over the median of what came before; batches differ by less"),
        "measured steps": Threshold(3, "a single odd batch is no explosion"),
        "amplification": Threshold(
            30.0, "of signals on their way from input to output; initialisations are made for 1"
        ),
        "amplification with such a loss": Threshold(10.0, "the loss shows it too"),
        "loss over chance": Threshold(3.0, "outputs that large are worse than knowing nothing"),
    },
    needs=[Kind.GRADIENT],
)
def exploding_gradients(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """Gradient norms are far above what they were, or signals grow from layer to layer."""
    yield from _in_time(history, facts, limits)
    if history.is_fresh(Kind.OUTPUT):
        yield from _through_layers(history, facts, limits)


def _in_time(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    table = history[Kind.GRADIENT]
    count = int(limits["measured steps"])
    if table.measured < count + 3:
        return
    norms = table.running("norm", lambda row: float(np.sqrt(np.nansum(row[:, _SUM_SQUARES]))))
    # The first step is no measure: a head that starts at 0 has no gradient behind it.
    before = norms[1 : max(4, len(norms) - count)]
    before = before[np.isfinite(before) & (before > 0)]
    if not before.size:
        return
    last = norms[-count:]
    # Most of the time this is seen at a glance.
    if not last.min() > limits["growth"] * before.min():
        return
    # Of steady growth, the start is what to compare with.
    usual = min(float(np.median(before)), float(np.median(before[:5])))
    if not np.all(last > limits["growth"] * usual):
        return
    if history.losses.recent < history.losses.initial and has_learned(history, facts, 0.05):
        return
    by_layer = table.l2_by_layer(count)
    worst = int(np.nanargmax(by_layer[-1]))
    yield Symptom(
        title=f"Gradients explode: {last[-1] / usual:,.0f} times their usual norm.",
        evidence={
            "norm": float(last[-1]),
            "usual norm": usual,
            "largest layer norm": float(by_layer[-1, worst]),
        },
        sites=[site for site in table.sites if site.layer == table.layers[worst]],
        layer=table.layers[worst],
        since=table.since(count),
    )


def _through_layers(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """Outputs that grow from layer to layer, until the loss is far worse than by chance."""
    table = history[Kind.OUTPUT]
    count = int(limits["measured steps"])
    if table.measured < count or len(history.losses) < count:
        return
    losses = history.losses.last(count)
    chance = np.fmin(chance_level(history, facts), loss_of_zero(history, facts))
    is_worse = bool(np.all(losses > limits["loss over chance"] * chance))
    if not (is_worse or progress(history, facts) < 0.05):
        return
    sizes = np.min(table.statistic("rms", count), axis=0)
    given = history[Kind.INPUT].latest("rms") if history.is_fresh(Kind.INPUT) else sizes[:1]
    # Of small inputs, what matters is whether the outputs are large.
    start = float(np.fmax.reduce(given, initial=1.0))
    largest = int(np.nanargmax(np.where(np.isnan(sizes), -1.0, sizes)))
    most = limits["amplification with such a loss" if is_worse else "amplification"] * start
    if not sizes[largest] > most or (not is_worse and has_learned(history, facts)):
        return
    grown = np.flatnonzero(sizes > most)
    site = table.sites[int(grown[0])]
    yield Symptom(
        title=f"Signals explode on their way through the layers, to {sizes[largest]:.3g} "
        f"at {table.sites[largest].layer}.",
        evidence={
            "RMS at the start, at least 1": start,
            "largest RMS": float(sizes[largest]),
            "loss": float(losses[-1]),
            **({"loss of knowing nothing": float(chance)} if np.isfinite(chance) else {}),
        },
        sites=[table.sites[i] for i in grown],
        layer=site.layer,
        since=table.since(count),
        remedy=(
            "Initialise with smaller weights (He, Glorot), normalise between layers, and scale "
            "what residual branches add; then look at the learning rate."
        ),
        about="through layers",
    )
