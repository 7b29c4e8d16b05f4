"""Gradients or signals that grow without measure but are still finite."""

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.chance import chance_level, loss_of_zero
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.rule import Limits, Threshold, rule


@rule(
    "exploding-gradients",
    remedy=(
        "Clip gradients by their norm (clipnorm=1), lower the learning rate, or initialize with "
        "smaller weights; in recurrent networks use LSTM or GRU."
    ),
    thresholds={
        "growth": Threshold(100.0, "over the median of earlier steps; batches differ by less"),
        "measured steps": Threshold(3, "a single odd batch is not an explosion"),
        "amplification": Threshold(
            30.0, "of signals between input and output; initializations aim at 1"
        ),
        "amplification with such a loss": Threshold(10.0, "if the loss is bad too"),
        "loss over chance": Threshold(3.0, "outputs so large are worse than guessing"),
    },
    needs=[Kind.GRADIENT],
)
def exploding_gradients(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Gradient norms far exceed their usual values, or signals grow from layer to layer."""
    yield from _growth_over_time(history, facts, limits)
    if history.is_fresh(Kind.OUTPUT):
        yield from _growth_through_layers(history, facts, limits)


def _growth_over_time(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    table = history[Kind.GRADIENT]
    count = int(limits["measured steps"])
    if table.measured < count + 3:
        return
    norms = table.series(
        "norm", lambda steps: np.sqrt(np.nansum(table.statistic("sum_squares", steps), axis=1))
    )
    # The first step does not count: a head initialized to 0 passes no gradient back.
    before = norms[1 : max(4, len(norms) - count)]
    before = before[np.isfinite(before) & (before > 0)]
    if not before.size:
        return
    last = norms[-count:]
    # A quick test that is enough at most steps.
    if not last.min() > limits["growth"] * before.min():
        return
    # If the norm grows steadily, compare with the start.
    usual = min(float(np.median(before)), float(np.median(before[:5])))
    if not np.all(last > limits["growth"] * usual):
        return
    if judgement(history, facts).has_moved:
        return
    by_layer = table.l2_by_layer(count)
    worst = int(np.nanargmax(by_layer[-1]))
    yield Symptom(
        title=f"Gradients explode: their norm is {last[-1] / usual:,.0f} times the usual one.",
        evidence={
            "norm": float(last[-1]),
            "usual norm": usual,
            "largest layer norm": float(by_layer[-1, worst]),
        },
        sites=[site for site in table.sites if site.layer == table.layers[worst]],
        layer=table.layers[worst],
        since=table.since(count),
    )


def _growth_through_layers(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Outputs that grow from layer to layer, with a loss that is flat or far above chance."""
    table = history[Kind.OUTPUT]
    count = int(limits["measured steps"])
    if table.measured < count or len(history.losses) < count:
        return
    losses = history.losses.last(count)
    chance = np.fmin(chance_level(history, facts), loss_of_zero(history, facts))
    is_worse = bool(np.all(losses > limits["loss over chance"] * chance))
    so_far = judgement(history, facts)
    if not (is_worse or so_far.is_flat):
        return
    sizes = np.min(table.statistic("rms", count), axis=0)
    inputs = history[Kind.INPUT].latest("rms") if history.is_fresh(Kind.INPUT) else sizes[:1]
    targets = history[Kind.TARGET].latest("rms") if history.is_fresh(Kind.TARGET) else inputs
    # If the inputs are small, only large outputs matter; and they may be as large as the targets.
    start = float(np.fmax.reduce([*inputs, *targets], initial=1.0))
    largest = int(np.nanargmax(np.where(np.isnan(sizes), -1.0, sizes)))
    limit = limits["amplification with such a loss" if is_worse else "amplification"] * start
    if not sizes[largest] > limit:
        return
    sites = table.sites_where(sizes > limit)
    yield Symptom(
        title=f"Signals explode from layer to layer: the RMS of {table.sites[largest].layer} is "
        f"{sizes[largest]:.3g}.",
        evidence={
            "RMS of inputs and targets (at least 1)": start,
            "largest RMS": float(sizes[largest]),
            "loss": float(losses[-1]),
            **({"loss at chance": float(chance)} if np.isfinite(chance) else {}),
        },
        sites=sites,
        layer=sites[0].layer,
        since=table.since(count),
        remedy=(
            "Initialize with smaller weights (He, Glorot), normalize between layers, and scale "
            "the residual branches; then check the learning rate."
        ),
        about="through layers",
    )
