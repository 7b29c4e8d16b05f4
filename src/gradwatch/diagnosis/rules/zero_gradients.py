"""Variables that receive no gradient at all."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, ModelFacts, Site
from gradwatch.diagnosis.finding import Severity, Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import Judgement, judgement
from gradwatch.diagnosis.network_order import enumerate_layers, matrices
from gradwatch.diagnosis.quantities import moved_between, not_called
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import Mask, ValueTable


@rule(
    "zero-gradients",
    remedy=(
        "The loss does not depend on these variables: check for weights initialized to 0, a "
        "stop_gradient or detach, an output that the loss does not use, and dead units."
    ),
    thresholds={
        "measured steps": Threshold(
            3, "a last layer initialized to 0 hides the others for a step, and is healthy"
        ),
        "measured steps of experts": Threshold(
            12, "of several layers that are alike, some may be chosen rarely"
        ),
        "losses": Threshold(60, "before experts that nothing is given to are blamed"),
    },
    needs=[Kind.GRADIENT],
)
def zero_gradients(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """The gradient of trainable matrices is exactly 0 or missing."""
    table = history[Kind.GRADIENT]
    count = int(limits["measured steps"])
    if table.measured <= count:
        return
    mixing = matrices(table, facts)
    if not mixing.any():
        return
    # Variables that were not measured are NaN: not 0.
    is_zero = table.statistic("sum_abs", count) == 0
    zero = is_zero[-1] & mixing
    if not zero.any():
        return
    never = np.all(is_zero & (table.nonfinite(count) == 0), axis=0)
    zero &= never
    if zero.any():
        zero &= ~moved_between(table, history, count)
    so_far = judgement(history, facts)
    # A network that has learned is done: a margin loss is 0 if all samples are right.
    if not zero.any() or so_far.has_learned:
        return
    had_any = table.statistic("sum_abs", len(table)) > 0
    if so_far.is_vague and table.has_forgotten:
        return
    if so_far.is_vague and had_any.any():
        # So is a policy all of whose rewards are the same; but not one that never got anything.
        if so_far.losses < limits["losses"] or table.measured < limits["measured steps of experts"]:
            return
        zero &= ~had_any.any(axis=0)
    if not so_far.is_flat:
        # Parts that are used in turns, such as the heads of several tasks, get gradients in turns.
        zero &= ~had_any.any(axis=0)
    zero = _without_spare(history, zero, mixing, limits, so_far)
    if not zero.any():
        return
    is_uncalled = zero & not_called(table, history, facts, count)
    if not facts.parameters.uncalled:
        # Calls under no_grad are not seen; spare parts are not the larger part of a network.
        is_uncalled &= 2 * is_uncalled.sum() < mixing.sum()
    if (zero & ~is_uncalled).any():
        zero &= ~is_uncalled
    sites = table.sites_where(zero)
    layers = list(dict.fromkeys(site.layer for site in sites))
    # A bias may have a gradient where the matrix beside it has none.
    reached = {site.layer for site in table.sites_where(table.latest("sum_abs") > 0)}
    part = "the weight matrices of " * (not reached.isdisjoint(layers))
    title = f"No gradient reaches {part}{enumerate_layers(layers)}."
    reaching = np.flatnonzero(mixing & ~is_zero[-1])
    # Behind the layer that the loss gets, a head may be for another loss, or for a later one.
    is_head = bool(reaching.size and np.flatnonzero(zero)[0] > reaching[-1])
    is_head &= facts.last_layer is not None and facts.last_layer.path in reached
    is_flat = so_far.is_flat and so_far.losses >= limits["losses"]
    is_single = not is_flat and _are_single_units(layers, reached, facts)
    # Neither can be why the others learn nothing.
    is_harmless = bool(is_uncalled[zero].any() or is_head or is_single) and not zero[mixing].all()
    # If most of the network gets none, that is why nothing is learned.
    is_most = 2 * zero.sum() >= mixing.sum()
    severity = Severity.INFO if is_harmless else None
    yield Symptom(
        title="No variable receives a gradient." if never.all() else title,
        evidence={
            "weight matrices without gradient": len(sites),
            "weight matrices in total": int(mixing.sum()),
            "not connected to the loss": int((table.latest("count")[zero] == 0).sum()),
            "measured steps": count,
        },
        sites=sites,
        # The cause is right after the last one of them.
        layer=layers[-1],
        since=_since(table, had_any[:, zero], count),
        severity=Severity.ERROR if is_most and not is_harmless else severity,
    )


def _are_single_units(layers: Sequence[str], reached: AbstractSet[str], facts: ModelFacts) -> bool:
    """Whether each of the layers has one unit, and not even its bias gets a gradient.

    Beside other heads, a softmax over one unit is such a layer: the share of the only component of
    a mixture, which is 1 whatever the weights are.
    """
    known = [facts.layer(layer) for layer in layers]
    return reached.isdisjoint(layers) and all(each and each.units == 1 for each in known)


def _since(table: ValueTable, had_any: Mask, count: int) -> int:
    """The first measured step without any; the first of the last `count`, if there never was."""
    last = np.flatnonzero(had_any.any(axis=1))
    return int(table.steps[last[-1] + 1]) if last.size else table.since(count)


def _without_spare(
    history: History, zero: Mask, mixing: Mask, limits: Limits, so_far: Judgement
) -> Mask:
    """The matrices that should get a gradient: not those of experts that are not chosen.

    Of the experts of a mixture, which are alike, a router may choose some for none of the samples.
    That is blamed only if nothing is learned, or if it always chooses the same one.
    """
    table = history[Kind.GRADIENT]
    alike = table.cached_per_sites("alike", lambda: _alike(table.sites, history[Kind.WEIGHT]))
    groups = [places for places in alike if zero[places].any() and not zero[places].all()]
    spare = np.zeros(zero.shape, bool)
    for places in groups:
        spare[places] |= zero[places]
    if not spare.any():
        return zero
    waited = int(limits["measured steps of experts"])
    is_long = np.zeros(zero.shape, bool)
    if table.measured > waited and so_far.losses >= limits["losses"]:
        is_long = np.all(table.statistic("sum_abs", waited) == 0, axis=0)
    is_single = np.zeros(zero.shape, bool)
    for places in groups:
        is_single[places] |= len(places) > 2 and zero[places].sum() == len(places) - 1
    # Of a stack of layers that are alike, those before a detach get none, like all before them.
    reached = np.flatnonzero(mixing & ~zero)
    is_first = np.arange(zero.size) < (reached[0] if reached.size else zero.size)
    is_blamed = is_long & (is_first | is_single | so_far.is_flat)
    return zero & (~spare | is_blamed)


def _alike(sites: Sequence[Site], weights: ValueTable) -> list[NDArray[np.intp]]:
    """The places of sites that differ only in one number of their paths, and have one size."""
    counts = weights.latest("count") if len(weights) else np.empty(0)
    sizes = dict(zip((site.path for site in weights.sites), map(float, counts), strict=False))
    groups: dict[tuple[str, float], list[int]] = {}
    for i, site in enumerate(sites):
        parts = site.path.split("/")
        for j, part in enumerate(parts):
            if part.isdigit():
                pattern = "/".join([*parts[:j], "*", *parts[j + 1 :]])
                groups.setdefault((pattern, sizes.get(site.path, 0.0)), []).append(i)
    return [np.array(places, np.intp) for places in groups.values() if len(places) > 1]
