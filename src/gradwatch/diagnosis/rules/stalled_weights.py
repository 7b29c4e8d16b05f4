"""Weights that should move and do not."""

from collections.abc import Mapping

import numpy as np

from gradwatch.core import Kind, ModelFacts, Site
from gradwatch.diagnosis.finding import Severity, Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import judgement
from gradwatch.diagnosis.network_order import enumerate_layers, matrices
from gradwatch.diagnosis.quantities import (
    is_growing,
    known_fall,
    moved_between,
    never_moved,
    typical_ratios,
    update_ratios,
    without_gradient,
)
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.value_table import Mask, ValueTable
from gradwatch.diagnosis.without_updates import without_updates

_FROZEN_BY_MISTAKE = (
    "trainable (torch: requires_grad) was set to False on the way: set it for those only that are "
    "to stay."
)


@rule(
    "stalled-weights",
    remedy=(
        "Check that the optimizer has these variables, that its learning rate is not 0 and no "
        "schedule has ended, and that the precision of the weights is enough for such updates."
    ),
    thresholds={
        "ratio": Threshold(1e-6, "of update to weight; float32 itself resolves 1e-7"),
        "measured steps": Threshold(5, "updates of single steps may be small"),
        "steps at rest": Threshold(30, "without any change, whatever the loss does"),
        "frozen share": Threshold(0.5, "of all weights; below, enough are left to train"),
        "losses": Threshold(60, "before frozen layers are blamed for a flat loss"),
        "ratio before": Threshold(1e-3, "of update to weight, of steps that did change them"),
        "done": Threshold(0.5, "of the constant guess's loss; what has learned more may be done"),
        "fall": Threshold(0.1, "share of the initial loss, for which frozen layers are not blamed"),
    },
    needs=[Kind.WEIGHT],
)
def stalled_weights(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """Trainable weights hardly change, or most weights are frozen, and the loss is flat."""
    yield from _frozen_on_the_way(history, facts, limits)
    yield from _come_to_rest(history, facts, limits)
    yield from without_updates(history, facts)
    so_far = judgement(history, facts)
    # Weights that never moved have learned nothing, however the noisy loss looks.
    is_flat = so_far.is_flat and not so_far.is_vague
    is_suspect = (
        is_flat
        or never_moved(history, facts, limits["ratio"])
        or _is_at_rest(history, int(limits["steps at rest"]))
    )
    if so_far.has_learned or not is_suspect or history.is_warming_up():
        return
    yield from _stalled(history, facts, limits)
    # To train only the head of a pretrained model is usual: noise alone is no flat loss here.
    if is_flat and so_far.fall < limits["fall"] and len(history.losses) >= limits["losses"]:
        yield from _frozen(history, facts, limits)


def _is_at_rest(history: History, steps: int) -> bool:
    """Whether no step of the newest ones has changed any weight, although there is a loss."""
    table = history[Kind.UPDATE]
    if not history.is_fresh(Kind.UPDATE) or len(table) < 5 or history.losses.latest == 0:
        return False
    if np.nansum(table.latest("sum_abs")) > 0:
        return False
    # What is measured of updates alone might be steps that only accumulate gradients.
    weights = history[Kind.WEIGHT]
    there = weights.steps > history.step - steps
    if weights.steps.size < 5 or weights.steps[0] > history.step - steps:
        return False
    rows = weights.rows(max(int(there.sum()) + 1, 5))
    trained = {site.path for site in table.sites}
    chosen = np.array([site.path in trained for site in weights.sites], bool)
    return bool(np.all((rows == rows[-1]) | np.isnan(rows), axis=(0, 2))[chosen].all())


def _come_to_rest(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """The weights did change, and no longer do, although gradients and learning rate are as ever.

    Gradients that are clipped to nothing do so, or a loss scale that is wrong.
    """
    so_far, table = judgement(history, facts), history[Kind.GRADIENT]
    if not so_far.skill.high < limits["done"] or so_far.is_falling:
        return
    if not history.is_fresh(Kind.UPDATE) or history.first_step > 1 or not len(table):
        return
    ratios = typical_ratios(history, facts)
    count = int(limits["measured steps"])
    # What an optimizer remembers of earlier gradients goes on for a while.
    is_slow = np.nan_to_num(ratios, nan=np.inf) < limits["ratio"]
    if ratios.size < 4 * count or not is_slow[-count:].all():
        return
    if not np.nanmax(ratios) > limits["ratio before"]:
        return
    norms = np.sqrt(np.nansum(table.statistic("sum_squares", len(table)), axis=1))
    rates = [rate for _, rate in history.numbers.get("learning_rate", ())]
    is_same_rate = not rates or rates[-1] > 0.1 * max(rates)
    if not is_same_rate or not norms[-count:].min() > 0.1 * float(np.median(norms[:count])):
        return
    first = int(np.flatnonzero(~is_slow)[-1]) + 1
    since = int(history[Kind.UPDATE].steps[-ratios.size :][first])
    if history.step - since < limits["steps at rest"]:
        return
    yield Symptom(
        title=f"The weights hardly change since step {since:,}, although there are gradients.",
        evidence={
            "update ratio": float(ratios[-1]),
            "update ratio before": float(np.nanmax(ratios)),
            "gradient norm": float(norms[-1]),
        },
        since=since,
        remedy="Check what lies between gradients and weights: clipping, a loss scale, the "
        "optimizer's epsilon.",
        about="at rest",
    )


def _stalled(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    count = int(limits["measured steps"])
    if history.is_fresh(Kind.UPDATE) and history[Kind.UPDATE].measured > count:
        table = history[Kind.UPDATE]
        ratios = update_ratios(history, facts, count)
        still = np.all(ratios < limits.per_site("ratio", table.sites), axis=0)
        still &= ~moved_between(table, history, count)
        total = int((~np.isnan(ratios[-1])).sum())
        # During a warm-up, updates grow from step to step.
        if is_growing(typical_ratios(history, facts)):
            return
        largest = float(np.nanmax(ratios[:, still])) if still.any() else 0.0
        moves = np.any(table.statistic("l2", count) > 0, axis=0) & ~still
    elif Kind.UPDATE not in history and history[Kind.WEIGHT].measured > count:
        # Without updates: weights have not moved if all their statistics are unchanged.
        table = history[Kind.WEIGHT]
        rows = table.rows(count)
        trained = {site.path for site in history[Kind.GRADIENT].sites}
        is_trained = np.array([site.path in trained for site in table.sites], bool)
        chosen = matrices(table, facts) & is_trained
        still = np.all(rows == rows[-1], axis=(0, 2)) & chosen & (table.latest("sum_abs") > 0)
        total, largest = int(chosen.sum()), 0.0
        moves = np.any((rows != rows[-1]) & ~np.isnan(rows), axis=(0, 2)) & is_trained
    else:
        return
    if still.any():
        still &= ~without_gradient(table, history, count)
    if not still.any():
        return
    sites = table.sites_where(still)
    layers = list(dict.fromkeys(site.layer for site in sites))
    is_all = len(sites) == total
    # A bias may move where the matrix beside it does not.
    moving = {site.layer for site in table.sites_where(moves)}
    is_whole = not moving if is_all else moving.isdisjoint(layers)
    weights = "weights" if is_whole else "weight matrices"
    subject = f"All {weights}" if is_all else f"The {weights} of {enumerate_layers(layers)}"
    yield Symptom(
        title=f"{subject} do not change although they are trainable.",
        evidence={
            "largest update ratio": largest,
            "weight matrices": len(sites),
            "weight matrices in total": total,
            "measured steps": count,
        },
        sites=sites,
        layer=layers[0],
        since=table.since(count),
        severity=Severity.ERROR if is_all and largest == 0.0 else None,
        about="stalled",
    )


def _frozen(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    table = history[Kind.WEIGHT]
    trained = history[Kind.GRADIENT] if Kind.GRADIENT in history else history[Kind.UPDATE]
    if not len(trained):
        return
    is_trained = ~np.isnan(trained.latest("count"))
    sites, share = table.cached_per_sites(
        ("frozen", is_trained.tobytes()),
        lambda: _frozen_sites(table, trained, is_trained, facts),
    )
    if not share > limits["frozen share"]:
        return
    yield Symptom(
        title=f"{share:.0%} of the weights are frozen, and the loss does not fall.",
        evidence={
            "frozen share": share,
            "frozen variables": len(sites),
            **known_fall(history, facts),
        },
        sites=sites,
        layer=sites[0].layer,
        remedy=(
            "These layers have trainable=False. Unless they are pretrained, set trainable=True "
            "before compile()."
        ),
        about="frozen",
    )


def _frozen_sites(
    table: ValueTable, trained: ValueTable, is_trained: Mask, facts: ModelFacts
) -> tuple[list[Site], float]:
    """The matrices that are not trained, and their share of all elements."""
    chosen = matrices(table, facts)
    now = {site.path: bool(x) for site, x in zip(trained.sites, is_trained, strict=True)}
    frozen = [i for i in np.flatnonzero(chosen) if _is_frozen(table.sites[i], now, facts)]
    sizes = np.nan_to_num(table.latest("count"))
    share = float(sizes[frozen].sum() / max(sizes[chosen].sum(), 1.0))
    return [table.sites[i] for i in frozen], share


def _is_frozen(site: Site, now: Mapping[str, bool], facts: ModelFacts) -> bool:
    """Whether a matrix is not trained; `now` has those that were trained at any time."""
    known = facts.layer(site.layer)
    if site.path not in now and known is not None and known.trainable is not None:
        return not known.trainable
    return not now.get(site.path, False)


def _frozen_on_the_way(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """All matrices were trained, and from some step on none of them is."""
    table, count = history[Kind.GRADIENT], int(limits["measured steps"])
    chosen = matrices(table, facts)
    if not chosen.any():
        return
    if not history.is_fresh(Kind.GRADIENT):
        yield from _without_gradients(history, facts, count)
        return
    if (
        not np.isnan(table.latest("count")[chosen]).all()
        or not np.isnan(table.statistic("count", count)[:, chosen]).all()
    ):
        return
    were_trained = ~np.isnan(table.statistic("count", len(table))[:, chosen]).all(axis=1)
    if not were_trained.any():
        return
    last = int(np.flatnonzero(were_trained)[-1])
    sites = table.sites_where(chosen)
    yield Symptom(
        title=f"All weight matrices are frozen since step {int(table.steps[last + 1]):,}, and "
        "training goes on.",
        evidence={"weight matrices": len(sites), "measured steps": len(table) - last - 1},
        sites=sites,
        layer=sites[0].layer,
        since=int(table.steps[last + 1]),
        remedy=_FROZEN_BY_MISTAKE,
        about="frozen on the way",
    )


def _without_gradients(history: History, facts: ModelFacts, count: int) -> Symptoms:
    """There were gradients, there are none any more, and no matrix changes."""
    table, last = history[Kind.WEIGHT], history[Kind.GRADIENT].latest_step
    if len(table) <= count or not history.is_fresh(Kind.WEIGHT) or last >= table.steps[-count]:
        return
    rows, chosen = table.rows(count)[:, matrices(table, facts)], matrices(table, facts)
    if not chosen.any() or not np.all((rows == rows[-1]) | np.isnan(rows)):
        return
    yield Symptom(
        title=f"All weight matrices are frozen since step {last + 1:,}, and training goes on.",
        evidence={"weight matrices": int(chosen.sum()), "measured steps": count},
        sites=table.sites_where(chosen),
        layer=table.sites_where(chosen)[0].layer,
        since=last + 1,
        remedy=_FROZEN_BY_MISTAKE,
        about="frozen on the way",
    )
