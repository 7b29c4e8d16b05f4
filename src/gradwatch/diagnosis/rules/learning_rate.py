"""Steps that are too large or too small for the weights they change."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.quantities import (
    has_learned,
    is_growing,
    never_moved,
    progress,
    typical_ratios,
)
from gradwatch.diagnosis.rule import Threshold, rule


@rule(
    "learning-rate-too-high",
    remedy="Lower the learning rate by a factor of 10, warm it up, or clip gradients.",
    thresholds={
        "ratio": Threshold(0.1, "of update to weight; about 1e-3 is usual"),
        "measured steps": Threshold(
            3, "first steps may be large, above all of adaptive optimizers"
        ),
        "improvement": Threshold(0.05, "a network that learns is left alone"),
        "ratio at once": Threshold(0.3, "in two steps, after which the loss has jumped"),
        "jump": Threshold(2.0, "of the loss over its first value, in two steps running"),
    },
    needs=[Kind.UPDATE],
)
def learning_rate_too_high(
    history: History, facts: ModelFacts, limits: Limits
) -> Iterator[Symptom]:
    """Each step changes the weights by a good part of themselves, and the loss does not fall."""
    table = history[Kind.UPDATE]
    count = int(limits["measured steps"])
    if _has_jumped(history, limits["jump"]):
        typical = typical_ratios(history, facts)
        runs = typical > limits["ratio at once"]
        is_too_high = runs.sum() > 1
    else:
        if table.measured <= count or not progress(history, facts) < limits["improvement"]:
            return
        if has_learned(history, facts):
            return
        typical = typical_ratios(history, facts)
        # Once units are dead or saturated by it, the steps become small again.
        runs = np.convolve(typical > limits["ratio"], np.ones(count), "valid") == count
        is_too_high = runs.any()
    if not is_too_high:
        return
    yield Symptom(
        title="The learning rate is too high: each step changes weights by "
        f"{np.nanmax(typical):.0%} of their size.",
        evidence={
            "largest update to weight": float(np.nanmax(typical)),
            "loss at the start": history.losses.initial,
            "loss now": history.losses.recent,
            **_rate(history, facts),
        },
        since=int(table.steps[int(np.argmax(runs))]),
    )


@rule(
    "learning-rate-too-low",
    remedy="Raise the learning rate by a factor of 10, and again if that helps.",
    thresholds={
        "ratio": Threshold(1e-5, "of update to weight; about 1e-3 is usual"),
        "measured steps": Threshold(10, "a schedule may begin low"),
        "improvement": Threshold(0.05, "a network that learns is left alone"),
        "losses": Threshold(15, "before the loss is called flat"),
    },
    needs=[Kind.UPDATE],
)
def learning_rate_too_low(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """Steps are tiny compared with the weights, though not 0, and the loss hardly falls."""
    table = history[Kind.UPDATE]
    count = int(limits["measured steps"])
    if table.measured <= count or len(history.losses) < limits["losses"]:
        return
    is_flat = progress(history, facts) < limits["improvement"]
    # What never moved has not learned either, however its noisy loss may look.
    if not (is_flat or never_moved(history, facts, limits["ratio"])):
        return
    if has_learned(history, facts, 0.5 if is_flat else 0.8):
        return
    typical = typical_ratios(history, facts)[-count:]
    if not np.all((typical < limits["ratio"]) & (typical > 0)):
        return
    # A schedule that warms up makes larger steps all the time.
    if history.is_warming_up() or is_growing(typical_ratios(history, facts)):
        return
    yield Symptom(
        title="The learning rate is too low: each step changes weights by "
        f"{np.median(typical):.1e} of their size.",
        evidence={
            "update to weight": float(np.median(typical)),
            "loss at the start": history.losses.initial,
            "loss now": history.losses.recent,
            **_rate(history, facts),
        },
        since=table.since(count),
    )


def _has_jumped(history: History, factor: float) -> bool:
    """Whether the last two losses are far above the first one."""
    losses = history.losses
    if len(losses) < 3 or not losses.values[0] > 0:
        return False
    return bool(np.all(losses.last(2) > factor * losses.values[0]))


def _rate(history: History, facts: ModelFacts) -> dict[str, float]:
    known = history.numbers.get("learning_rate")
    rate = known[-1][1] if known else facts.optimizer.learning_rate
    return {} if rate is None else {"learning rate": rate}
