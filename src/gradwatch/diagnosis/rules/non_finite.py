"""NaN and Inf: which tensor was the first, in the order of execution."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gradwatch.core import Kind, ModelFacts, Site
from gradwatch.diagnosis.finding import Severity, Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.network_order import BACKWARD, PHASES, LayerOrder
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import ValueTable

_HARM = (Kind.LOSS, Kind.APPLIED_GRADIENT, Kind.UPDATE, Kind.WEIGHT)
_BACKWARD_REMEDY = (
    "The forward pass is finite, but its derivative is not: sqrt, norm or power at 0, or a where() "
    "whose other branch is infinite. Add a small constant under the root, or mask before it."
)
_UPDATE_REMEDY = "The update itself overflowed: lower the learning rate, or clip gradients."
_SUMS = {
    Kind.INPUT_SUM: Kind.INPUT,
    Kind.OUTPUT_SUM: Kind.OUTPUT,
    Kind.OUTPUT_GRADIENT_SUM: Kind.OUTPUT_GRADIENT,
}
"""Kinds that say of a tensor only whether it is finite, in the order in which tensors arose."""
_REMEDIES = {
    Kind.INPUT: "The data contains NaN or Inf: clean it, or find the file it comes from.",
    Kind.TARGET: "The labels contain NaN or Inf: clean them, or leave out these samples.",
    Kind.OUTPUT: (
        "Check what this layer computes: log or division of 0, exp of a large number, or weights "
        "that have grown. Add a small constant, clip, or lower the learning rate."
    ),
    Kind.LOSS: (
        "The model's output is finite, but its loss is not: log of 0, or values too large to "
        "square. Give the loss logits (from_logits=True), or clip the output."
    ),
    Kind.OUTPUT_GRADIENT: _BACKWARD_REMEDY,
    Kind.GRADIENT: _BACKWARD_REMEDY,
}


class _BadTensor(NamedTuple):
    site: Site
    nan: float
    inf: float
    elements: float
    """NaN if not known."""
    is_mask: bool
    """Minus infinity is the only non-finite value, as in masks."""
    computed_by: str | None = None
    """The layer that computed it, if that is known better than from the order of layers."""


@rule(
    "non-finite",
    severity=Severity.ERROR,
    thresholds={
        "skipped steps": Threshold(
            3, "a loss scale that is too high overflows for a step or two, which are skipped"
        ),
        "skipped steps under loss scaling": Threshold(
            16, "from its usual start, 2^15, a loss scale is halved 15 times until it is 1"
        ),
    },
)
def non_finite(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """A tensor contains NaN or Inf; the first one in the order of execution is named."""
    bad = list(_bad_tensors(history))
    if not bad:
        return
    kinds = {each.site.kind for each in bad}
    is_harmful = bool(kinds & {*_HARM, *BACKWARD})
    if not is_harmful:
        # Masks contain minus infinity, and NaN in the batch may mark missing values: both are
        # handled if neither loss nor gradients are affected. NaN in an output is not intended.
        bad = [each for each in bad if each.site.kind is Kind.OUTPUT and not each.is_mask]
        if not bad:
            return
    severity = Severity.ERROR if is_harmful else Severity.WARNING
    if not kinds & set(_HARM) and _is_skipped(history, bad):
        if _bad_steps_in_a_row(history, bad[0].site.kind) < _tolerated(facts, limits):
            return
        severity = Severity.WARNING
    order = _layer_order(history, facts)
    first = _first(bad, order, history)
    kind = first.site.kind
    layer = first.computed_by
    if layer is None:
        layer = _responsible_layer(first.site, order, history)
    if kind is Kind.INPUT:
        # The first layer that received it.
        affected = [each.site.layer for each in bad if each.site.kind is Kind.OUTPUT]
        layer = min(affected, key=order.rank, default="")
    what = "NaN" if first.nan else "Inf"
    last_finite = _last_finite_step(history, first.site)
    evidence = {} if last_finite is None else {"last finite step": last_finite}
    if kind is Kind.LOSS and not any(map(history.is_fresh, (Kind.WEIGHT, Kind.OUTPUT_SUM))):
        yield Symptom(
            title=f"{what} in the loss of step {history.step}; nothing else was measured in it.",
            evidence={"NaN": first.nan, "Inf": first.inf, **evidence},
            sites=[first.site],
            remedy=(
                "To see which tensor was the first, repeat the training up to this step with "
                "every=1. Check for NaN in the data, log or division of 0, and a learning rate "
                "that is too high."
            ),
        )
        return
    place = "the loss" if kind is Kind.LOSS else str(first.site)
    by = f", computed by {layer}" if kind is Kind.OUTPUT_GRADIENT and layer else ""
    known = math.isfinite(first.elements)
    counts = {"NaN": first.nan, "Inf": first.inf, "elements": first.elements} if known else {}
    yield Symptom(
        title=f"{what} in step {history.step}, first in {place}{by}.",
        evidence={**counts, "tensors affected": len(bad), **evidence},
        sites=[first.site, *sorted({b.site for b in bad} - {first.site})],
        layer=layer,
        severity=severity,
        remedy=_REMEDIES.get(kind, _UPDATE_REMEDY),
    )


def _layer_order(history: History, facts: ModelFacts) -> LayerOrder:
    kinds = (Kind.OUTPUT, Kind.GRADIENT, Kind.WEIGHT)
    return LayerOrder(facts.layers, [site.layer for kind in kinds for site in history[kind].sites])


def _bad_tensors(history: History) -> Iterator[_BadTensor]:
    """The tensors that are not finite in the newest step."""
    for kind in PHASES:
        if kind is Kind.LOSS:
            losses = history.losses
            value = losses.latest
            if len(losses) and losses.latest_step == history.step and not math.isfinite(value):
                nan, inf = float(math.isnan(value)), float(math.isinf(value))
                yield _BadTensor(Site(kind, _loss_path(history)), nan, inf, 1.0, False)
        elif history.is_fresh(kind) and not history[kind].is_finite:
            table = history[kind]
            for i in np.flatnonzero(table.nonfinite(1)[0] > 0):
                nan, posinf, neginf, elements = (
                    float(table.latest(name)[i]) for name in ("nan", "posinf", "neginf", "count")
                )
                is_mask = not nan and not posinf
                yield _BadTensor(table.sites[i], nan, posinf + neginf, elements, is_mask)
    for kind, summed in _SUMS.items():
        if history.is_fresh(kind) and not history[kind].is_finite:
            sums = list(_bad_sums(history[kind], summed))
            yield from [each for each in sums if not _is_usual(each.site, history)][:1] or sums[:1]


def _bad_sums(table: ValueTable, kind: Kind) -> Iterator[_BadTensor]:
    """The sums that are not finite, in the order of their computation."""
    for i in np.flatnonzero(table.nonfinite(1)[0] > 0):
        nan, posinf, neginf = (float(table.latest(name)[i]) for name in ("nan", "posinf", "neginf"))
        by = None
        if kind is Kind.OUTPUT_GRADIENT:
            # What came before it in the backward pass is the gradient of its user's output.
            by = Site(kind, table.sites[i - 1].path).layer if i else ""
        site = Site(kind, table.sites[i].path)
        yield _BadTensor(site, nan, posinf + neginf, math.nan, not nan and not posinf, by)


def _first(bad: list[_BadTensor], order: LayerOrder, history: History) -> _BadTensor:
    """The first of the bad tensors to be computed."""
    new = [each for each in bad if not _is_usual(each.site, history)] or bad
    sums = {each.site.kind: each.site.path for each in new if math.isnan(each.elements)}
    # What is measured of a kind is not the first, if sums tell that another one was.
    new = [x for x in new if f"{x.site.path}:".startswith(f"{sums.get(x.site.kind, x.site.path)}:")]
    if Kind.OUTPUT_GRADIENT in sums:
        # Clipping by the norm of all gradients spreads NaN to layers whose own were finite.
        table = history[Kind.OUTPUT_GRADIENT_SUM]
        own = {table.sites[i].layer for i in np.flatnonzero(table.nonfinite(1)[0] == 0)}
        new = [x for x in new if x.site.kind is not Kind.GRADIENT or x.site.layer not in own]
    return min(new, key=lambda each: order.moment(each.site))


def _is_usual(site: Site, history: History) -> bool:
    """Whether a tensor was not finite before, as masks are, and data with missing values."""
    if site.kind not in (Kind.INPUT, Kind.OUTPUT, Kind.TARGET):
        return False
    table = history[site.kind]
    if site not in table.sites:
        return False
    was_bad = table.nonfinite(64)[:, table.sites.index(site)] > 0
    return bool(was_bad[table.steps[-was_bad.size :] < history.step].any())


def _loss_path(history: History) -> str:
    sites = history.reading.sites if history.reading is not None else ()
    return next((site.path for site in sites if site.kind is Kind.LOSS), "loss")


def _is_skipped(history: History, bad: list[_BadTensor]) -> bool:
    """Whether only gradients are bad: the update was not made."""
    return history.is_fresh(Kind.WEIGHT) and all(each.site.kind in BACKWARD for each in bad)


def _tolerated(facts: ModelFacts, limits: Limits) -> float:
    """The number of consecutive steps that may be skipped for non-finite gradients."""
    if facts.optimizer.loss_scale is not None:
        return limits["skipped steps under loss scaling"]
    # An optimizer that is known to have no loss scale skips no steps.
    return 0.0 if facts.optimizer.name is not None else limits["skipped steps"]


def _bad_steps_in_a_row(history: History, kind: Kind) -> int:
    """For how many measured steps, up to the newest, this kind was not finite."""
    is_bad = (history[kind].nonfinite(32) > 0).any(1)
    good = np.flatnonzero(~is_bad)
    return int(is_bad.size) - (int(good[-1]) + 1 if good.size else 0)


def _responsible_layer(first: Site, order: LayerOrder, history: History) -> str:
    """The layer that computed the first bad tensor; empty if no layer did."""
    if first.kind in (Kind.INPUT, Kind.TARGET, Kind.LOSS):
        return ""
    layer = first.layer
    if first.kind is not Kind.OUTPUT_GRADIENT:
        return layer
    # The gradient of an output is computed by the layer that uses the output.
    around = {path for path in order.paths if layer.startswith(f"{path}/")}
    later = order.paths[order.rank(layer) + 1 :]
    measured = {site.layer for site in history[Kind.OUTPUT_GRADIENT].sites}
    return next((path for path in later if path in measured and path not in around), layer)


def _last_finite_step(history: History, site: Site) -> int | None:
    """The last measured step at which this tensor was finite, if there is one."""
    if site.kind is Kind.LOSS:
        finite = history.losses.steps[np.isfinite(history.losses.values)]
        steps = finite[finite < history.step]
    elif site not in history[site.kind].sites:
        return None
    else:
        table = history[site.kind]
        bad = table.nonfinite(64)[:, table.sites.index(site)]
        steps = table.steps[-bad.size :][bad == 0]
    return int(steps[-1]) if steps.size else None
