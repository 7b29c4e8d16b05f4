"""A discriminator that cannot be fooled."""

import numpy as np

from gradwatch.core import ModelFacts
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.losses import median
from gradwatch.diagnosis.rule import Limits, Threshold, rule
from gradwatch.diagnosis.vocabulary import LossKind, loss_kind


@rule(
    "adversary-wins",
    remedy=(
        "Slow the discriminator down: a lower learning rate, fewer steps, dropout, smoothed "
        "labels, noise on its inputs, a gradient penalty; or give the generator the "
        "non-saturating loss."
    ),
    thresholds={
        "left": Threshold(0.03, "of the initial loss; of a balanced pair, about half is left"),
        "losses": Threshold(60, "of the last third; one side may be ahead for a while"),
        "losses without an end": Threshold(400, "before it is said while training goes on"),
    },
)
def adversary_wins(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """A discriminator's loss is nearly 0 for long: a generator has nothing to learn from it."""
    losses = history.part_losses
    # A critic of actions learns values, and is meant to be right.
    if not facts.loss.judges or loss_kind(facts.loss.name) is LossKind.REGRESSION:
        return
    window = losses.last(len(losses) // 3)
    least = limits["losses" if history.has_ended else "losses without an end"]
    if window.size < least or not np.isfinite(window).all() or window.min() < 0:
        return
    level = median(window)
    if not level < limits["left"] * losses.initial:
        return
    judged = facts.loss.judges[0] or "the other network"
    yield Symptom(
        title=f"The discriminator always wins: what {judged} makes never looks genuine to it.",
        evidence={"initial loss": losses.initial, "loss": level, "losses": window.size},
        since=int(losses.steps[-window.size]),
    )
