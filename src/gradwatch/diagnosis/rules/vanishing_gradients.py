"""Gradients that fade on their way back through the layers."""

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, ModelFacts, Site
from gradwatch.diagnosis.fading_memory import fading_cells
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.network_order import matrices
from gradwatch.diagnosis.quantities import known_fall
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import Array, Mask, ValueTable

_NEAR = 2.0
"""Times the limit."""


@rule(
    "vanishing-gradients",
    remedy=(
        "Use ReLU-like activations instead of sigmoid or tanh, a matching initialization (He, "
        "Glorot), batch or layer normalization, or skip connections."
    ),
    thresholds={
        "ratio": Threshold(1e-3, "healthy networks stay well above it, however deep"),
        "ratio at once": Threshold(1e-5, "reported without waiting for the loss"),
        "measured steps": Threshold(3, "one batch may be odd"),
        "early losses": Threshold(15, "until these are known, only what is reported at once"),
        "steps before": Threshold(16, "in none of which it was twice as much"),
        "left": Threshold(1e-5, "of a signal over all steps of a sequence, in a plain cell"),
        "losses": Threshold(100, "at the constant guess's, before a cell is blamed"),
    },
    needs=[Kind.GRADIENT],
)
def vanishing_gradients(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Early layers get hardly any gradient compared with the last ones, and the loss is flat."""
    table = history[Kind.GRADIENT]
    count = int(limits["measured steps"])
    if table.measured <= count:
        return
    # Until enough losses are known, only what is extreme is reported.
    is_flat = judgement(history, facts).is_flat
    yield from _within_cells(history, facts, limits)
    is_flat &= len(history.losses) >= limits["early losses"]
    if len(history.losses) >= limits["early losses"] and not is_flat:
        return
    mixing = np.unique(table.layer_index[matrices(table, facts)])
    if len(mixing) < 2:
        return
    layers = [table.layers[i] for i in mixing]
    norms, largest, ratios = _norms(table, mixing, count)
    name = "ratio" if is_flat else "ratio at once"
    limit = limits.per_site(name, [Site(Kind.GRADIENT, f"{layer}/") for layer in layers])
    # Exact zeros have another cause, see zero-gradients. A gradient that starts at 0 and grows
    # is healthy.
    small = np.all((ratios < limit) & (norms > 0), axis=0) & (ratios[-1] < 3.0 * ratios[0])
    if not small.any() or np.argmax(small) > np.nanargmax(norms[-1]):
        return
    # Those that come near to the limit now and then have not vanished.
    earlier = _norms(table, mixing, int(limits["steps before"]))[2]
    small &= np.all(earlier < _NEAR * limit, axis=0)
    if not small.any():
        return
    if is_flat and not table.has_forgotten and _grow(table, mixing, small):
        return
    top = int(np.flatnonzero(small)[-1])
    lowest = int(np.nanargmin(np.where(small, norms[-1], np.nan)))
    way = f"from {layers[top]} down to" if lowest != top else "before they reach"
    chosen = {layer for layer, is_small in zip(layers, small, strict=True) if is_small}
    yield Symptom(
        title=f"Gradients vanish {way} {layers[lowest]}.",
        evidence={
            "smallest layer norm": float(norms[-1, lowest]),
            "largest layer norm": float(largest[-1, 0]),
            "ratio": float(norms[-1, lowest] / largest[-1, 0]),
            **known_fall(history, facts),
        },
        sites=[site for site in table.sites if site.layer in chosen],
        layer=layers[top],
        since=table.since(count),
    )


def _norms(table: ValueTable, mixing: NDArray[np.intp], count: int) -> tuple[Array, Array, Array]:
    """Of the newest steps, the norms of layers, the largest of them, and what reaches each layer.

    A gradient that reaches an earlier layer has not vanished on its way: that of the queries and
    keys of an attention is small by nature, and all layers before them get theirs past them.
    """
    norms = table.l2_by_layer(count)
    reaching = np.fmax.accumulate(norms, axis=1)[:, mixing]
    norms = norms[:, mixing]
    largest = np.nanmax(np.where(np.isnan(norms), 0.0, norms), axis=1, keepdims=True)
    return norms, largest, reaching / largest


def _within_cells(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Cells that forget the early steps of a sequence, where nothing is learned."""
    so_far = judgement(history, facts)
    if so_far.losses < limits["losses"] or not so_far.is_nothing or so_far.is_falling:
        return
    for site, factor, steps in fading_cells(history, facts):
        if not 0.0 < factor < 1.0 or factor**steps > limits["left"]:
            continue
        yield Symptom(
            title=f"Gradients vanish within {site.layer}: over {steps} steps of a sequence, "
            f"{factor**steps:.0e} of them is left.",
            evidence={"left by a step": factor, "steps": steps, **known_fall(history, facts)},
            sites=[site],
            layer=site.layer,
            since=history.first_step,
            remedy="Use LSTM or GRU, an orthogonal initialization of the recurrent weights, or "
            "shorter sequences.",
            about="within a cell",
        )


def _grow(table: ValueTable, mixing: NDArray[np.intp], small: Mask) -> bool:
    """Whether the small gradients have grown since the start: the weights behind began tiny."""
    norms = table.l2_by_layer(len(table))[:, mixing]
    largest = np.nanmax(np.where(np.isnan(norms), 0.0, norms), axis=1, keepdims=True)
    ratios = (norms / largest)[:, small]
    return bool(np.all(np.nanmedian(ratios[-3:], axis=0) > 3.0 * np.nanmedian(ratios[:3], axis=0)))
