"""NaN and Inf: which tensor was the first, in the order of execution."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gradwatch.core import FIELDS, Kind, ModelFacts, Site
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.network_order import BACKWARD, PHASES, LayerOrder, moment_of, order_of
from gradwatch.diagnosis.rule import Threshold, rule

_HARM = (Kind.LOSS, Kind.APPLIED_GRADIENT, Kind.UPDATE, Kind.WEIGHT)

_REMEDIES = {
    Kind.INPUT: "The data itself holds NaN or Inf: clean it, or find the file that it comes from.",
    Kind.TARGET: "The labels hold NaN or Inf: clean them, or leave these samples out.",
    Kind.OUTPUT: (
        "Look at what this layer computes: log or division of 0, exp of something large, or "
        "weights that have grown. Add a small constant, clip, or lower the learning rate."
    ),
    Kind.LOSS: (
        "The model's output is finite, its loss is not: log of 0, or values too large to square. "
        "Give the loss logits (from_logits=True), or clip the output."
    ),
    Kind.WEIGHT: "The update itself overflowed: lower the learning rate, or clip gradients.",
}
_BACKWARD_REMEDY = (
    "The forward pass is finite, its derivative is not: sqrt, norm or power at 0, or a where() "
    "whose other branch is infinite. Add a small constant under the root, or mask before it."
)


class _Bad(NamedTuple):
    kind: Kind
    path: str
    nan: float
    inf: float
    elements: float

    @property
    def site(self) -> Site:
        return Site(self.kind, self.path)


@rule(
    "non-finite",
    severity=Severity.ERROR,
    thresholds={
        "skipped steps": Threshold(
            3, "a loss scale that is too high overflows a step or two, which are skipped"
        ),
        "skipped steps under loss scaling": Threshold(
            16, "from its usual start, 2^15, a loss scale is halved 15 times until it is 1"
        ),
    },
)
def non_finite(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """A NaN or Inf in any tensor; the first one in the order of execution is named."""
    bad = list(_bad_tensors(history))
    if not bad:
        return
    kinds = {each.kind for each in bad}
    if not kinds & {*_HARM, *BACKWARD}:
        # Minus infinity is how masks are made, and NaN may mark what is left out: guarded
        # if neither loss nor gradients have it. Others in an output are not meant.
        bad = [each for each in bad if each.kind is Kind.OUTPUT and not _is_mask(history, each)]
        if not bad:
            return
    order = order_of(facts, [history[Kind.OUTPUT], history[Kind.GRADIENT], history[Kind.WEIGHT]])
    first = min(bad, key=lambda each: moment_of(each.site, order))
    severity = Severity.ERROR if kinds & {*_HARM, *BACKWARD} else Severity.WARNING
    if not kinds & set(_HARM) and _is_skipped(history, bad):
        if _running(history, bad[0].kind) < _tolerated(facts, limits):
            return
        severity = Severity.WARNING
    layer = _culprit(first, order, history)
    if first.kind is Kind.INPUT:
        # The first layer that it goes into.
        given = [each for each in bad if each.kind is Kind.OUTPUT]
        layer = min((each.site.layer for each in given), key=order.rank, default="")
    what = "NaN" if first.nan else "Inf"
    place = f"the {first.kind}".replace("_", " ") if first.kind is Kind.LOSS else str(first.site)
    clean = _last_clean(history, first)
    if first.kind is Kind.LOSS and not history.is_fresh(Kind.WEIGHT):
        yield _unmeasured(history, first, what, clean)
        return
    yield Symptom(
        title=f"{what} in step {history.step}, first in {place}"
        + (f", computed by {layer}" if first.kind is Kind.OUTPUT_GRADIENT else "")
        + ".",
        evidence={
            "NaN": first.nan,
            "Inf": first.inf,
            "elements": first.elements,
            "tensors affected": len(bad),
            **({"last finite step": clean} if clean is not None else {}),
        },
        sites=[first.site, *sorted({b.site for b in bad} - {first.site})],
        layer=layer,
        severity=severity,
        remedy=_remedy(first),
        # The first one stays the finding, however it spreads.
        about="",
    )


def _unmeasured(history: History, loss: _Bad, what: str, clean: int | None) -> Symptom:
    """Of a step of which only the loss is known."""
    return Symptom(
        title=f"{what} in the loss of step {history.step}, of which nothing else was measured.",
        evidence={"NaN": loss.nan, "Inf": loss.inf}
        | ({"last finite step": clean} if clean is not None else {}),
        sites=[loss.site],
        remedy=(
            "To see which tensor is the first, train to that step again with every=1: look "
            "for NaN in the data, log or division of 0, and a learning rate that is too high."
        ),
    )


def _bad_tensors(history: History) -> Iterator[_Bad]:
    for kind in PHASES:
        if kind is Kind.LOSS:
            losses = history.losses
            if len(losses) and losses.latest_step == history.step:
                value = losses.latest
                if not math.isfinite(value):
                    yield _Bad(kind, _loss_path(history), *_counts(value), 1.0)
        elif history.is_fresh(kind):
            table = history[kind]
            for i in np.flatnonzero(table.nonfinite() > 0):
                nan, inf = table.latest("nan")[i], 0.0
                inf = table.latest("posinf")[i] + table.latest("neginf")[i]
                site = table.sites[i]
                yield _Bad(kind, site.path, float(nan), float(inf), float(table.latest("count")[i]))


def _counts(value: float) -> tuple[float, float]:
    return float(math.isnan(value)), float(math.isinf(value))


def _loss_path(history: History) -> str:
    sites = history.reading.sites if history.reading is not None else ()
    return next((site.path for site in sites if site.kind is Kind.LOSS), "loss")


def _is_mask(history: History, bad: _Bad) -> bool:
    table = history[bad.kind]
    i = table.sites.index(bad.site)
    return not bad.nan and not table.latest("posinf")[i]


def _is_skipped(history: History, bad: list[_Bad]) -> bool:
    """Whether the gradients are bad and the weights are not: the update was not made."""
    return history.is_fresh(Kind.WEIGHT) and all(each.kind in BACKWARD for each in bad)


def _tolerated(facts: ModelFacts, limits: Limits) -> float:
    """How many steps in a row may be skipped for gradients that are not finite."""
    if facts.optimizer.loss_scale is not None:
        return limits["skipped steps under loss scaling"]
    # Nobody skips steps where it is known that there is no loss scale.
    return 0.0 if facts.optimizer.name is not None else limits["skipped steps"]


def _running(history: History, kind: Kind) -> int:
    """In how many of the last measured steps in a row anything of the kind was bad."""
    table = history[kind]
    bad = table.statistic("nan", 32) + table.statistic("posinf", 32) + table.statistic("neginf", 32)
    good = np.flatnonzero(~(bad > 0).any(1))
    return int(bad.shape[0]) - (int(good[-1]) + 1 if good.size else 0)


def _culprit(first: _Bad, order: LayerOrder, history: History) -> str:
    """The layer that computed the first bad tensor; empty if it is none's."""
    if first.kind in (Kind.INPUT, Kind.TARGET, Kind.LOSS):
        return ""
    layer = first.site.layer
    if first.kind is not Kind.OUTPUT_GRADIENT:
        return layer
    # The gradient with respect to an output is computed by the layer that uses the output.
    holders = {path for path in order.paths if layer.startswith(f"{path}/")}
    later = order.paths[order.rank(layer) + 1 :]
    seen = {site.layer for site in history[Kind.OUTPUT_GRADIENT].sites}
    return next((path for path in later if path in seen and path not in holders), layer)


def _last_clean(history: History, first: _Bad) -> int | None:
    """The last measured step at which it was finite, if it was measured before."""
    if first.kind is Kind.LOSS:
        finite = history.losses.steps[np.isfinite(history.losses.values)]
        before = finite[finite < history.step]
        return int(before[-1]) if before.size else None
    table = history[first.kind]
    i = table.sites.index(first.site)
    rows = table.rows(64)[:, i]
    bad = [FIELDS.index(name) for name in ("nan", "posinf", "neginf")]
    clean = np.flatnonzero(rows[:, bad].sum(1) == 0)
    return int(table.steps[-rows.shape[0] :][clean[-1]]) if clean.size else None


def _remedy(first: _Bad) -> str:
    if first.kind in (Kind.OUTPUT_GRADIENT, Kind.GRADIENT):
        return _BACKWARD_REMEDY
    return _REMEDIES.get(first.kind, _REMEDIES[Kind.WEIGHT])
