"""Weights that do not move though they should."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradwatch.core import FIELDS, Kind, ModelFacts, Site
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.network_order import matrices
from gradwatch.diagnosis.quantities import (
    has_learned,
    is_growing,
    never_moved,
    progress,
    typical_ratios,
    update_ratios,
)
from gradwatch.diagnosis.rule import Threshold, rule
from gradwatch.diagnosis.value_table import ValueTable

_FROZEN_REMEDY = (
    "These layers have trainable=False. If they do not hold what another training has learned, set "
    "trainable=True before compile()."
)


@rule(
    "stalled-weights",
    remedy=(
        "Check that the optimizer is given these variables and its learning rate is not 0, that a "
        "schedule has not ended, and that weights and gradients have the precision to add up."
    ),
    thresholds={
        "ratio": Threshold(1e-6, "of update to weight: float32 itself resolves 1e-7"),
        "measured steps": Threshold(5, "updates of single steps may be small"),
        "improvement": Threshold(0.05, "a network that learns is left alone"),
        "frozen share": Threshold(0.5, "of all weights; less leaves enough to train"),
        "losses": Threshold(30, "before frozen layers are blamed for a flat loss"),
    },
    needs=[Kind.WEIGHT],
)
def stalled_weights(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """Trainable weights change by next to nothing a step, or most are frozen; the loss is flat."""
    is_flat = progress(history, facts) < limits["improvement"]
    # What never moved has not learned either, however its noisy loss may look.
    if not (is_flat or never_moved(history, facts, limits["ratio"])) or history.is_warming_up():
        return
    if has_learned(history, facts, 0.5 if is_flat else 0.8):
        return
    yield from _stalled(history, facts, limits)
    if is_flat and len(history.losses) >= limits["losses"]:
        yield from _frozen(history, facts, limits)


def _stalled(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    count = int(limits["measured steps"])
    if history.is_fresh(Kind.UPDATE) and history[Kind.UPDATE].measured > count:
        table = history[Kind.UPDATE]
        ratios = update_ratios(history, facts, count)
        still = np.all(ratios < limits.per_site("ratio", table.sites), axis=0)
        of = int((~np.isnan(ratios[-1])).sum())
        # A schedule that warms up makes larger steps all the time.
        if is_growing(typical_ratios(history, facts)):
            return
        largest = float(np.nanmax(ratios[:, still])) if still.any() else 0.0
    elif Kind.UPDATE not in history and history[Kind.WEIGHT].measured > count:
        # Without updates, weights whose every number stays the same have not moved.
        table = history[Kind.WEIGHT]
        rows = table.rows(count)
        trained = {site.path for site in history[Kind.GRADIENT].sites}
        chosen = matrices(table, facts) & [site.path in trained for site in table.sites]
        still = (
            np.all(rows == rows[-1], axis=(0, 2))
            & chosen
            & (rows[-1, :, FIELDS.index("sum_abs")] > 0)
        )
        of, largest = int(chosen.sum()), 0.0
    else:
        return
    if not still.any():
        return
    sites = [table.sites[i] for i in np.flatnonzero(still)]
    layers = list(dict.fromkeys(site.layer for site in sites))
    where = "All weights" if len(sites) == of else f"The weights of {_some(layers)}"
    yield Symptom(
        title=f"{where} stand still though they are trainable.",
        evidence={
            "largest update to weight": largest,
            "variables": len(sites),
            "of": of,
            "measured steps": count,
        },
        sites=sites,
        layer=layers[0],
        since=table.since(count),
        severity=Severity.ERROR if len(sites) == of and largest == 0.0 else None,
        about="stalled",
    )


def _frozen(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    table = history[Kind.WEIGHT]
    trained = history[Kind.GRADIENT].sites or history[Kind.UPDATE].sites
    if not trained:
        return
    sites, share = table.fixed(
        ("frozen", len(trained)), lambda: _frozen_sites(table, trained, facts)
    )
    if not share > limits["frozen share"]:
        return
    yield Symptom(
        title=f"{share:.0%} of the weights are frozen, and the loss does not fall.",
        evidence={
            "frozen share": share,
            "frozen variables": len(sites),
            "loss improvement": progress(history, facts),
        },
        sites=sites,
        layer=sites[0].layer,
        remedy=_FROZEN_REMEDY,
        about="frozen",
    )


def _frozen_sites(
    table: ValueTable, trained: tuple[Site, ...], facts: ModelFacts
) -> tuple[list[Site], float]:
    """The matrices that are not trained, and what share of all elements they have."""
    chosen = matrices(table, facts)
    paths = {site.path for site in trained}
    frozen = [i for i in np.flatnonzero(chosen) if _is_frozen(table.sites[i], paths, facts)]
    sizes = np.nan_to_num(table.latest("count"))
    share = float(sizes[frozen].sum() / max(sizes[chosen].sum(), 1.0))
    return [table.sites[i] for i in frozen], share


def _is_frozen(site: Site, trained: set[str], facts: ModelFacts) -> bool:
    known = facts.layer(site.layer)
    if known is not None and known.trainable is not None:
        return not known.trainable
    return site.path not in trained


def _some(layers: list[str]) -> str:
    return layers[0] if len(layers) == 1 else f"{layers[0]} and {len(layers) - 1} more layers"
