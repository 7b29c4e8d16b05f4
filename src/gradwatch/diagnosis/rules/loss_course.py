"""The course of the loss: flat, swinging, or away."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from gradwatch.core import ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.quantities import apparent_progress, chance_level, has_learned
from gradwatch.diagnosis.rule import Threshold, rule
from gradwatch.diagnosis.vocabulary import loss_kind

_SEQUENCE = re.compile(r"RNN|LSTM|GRU|Attention|Transformer")


@rule(
    "loss-not-falling",
    remedy=(
        "Nothing is learned so far. Try to fit a single batch first; then look at labels, at the "
        "learning rate (10 times more, 10 times less), and at what the loss is given."
    ),
    thresholds={
        "losses": Threshold(60, "hard tasks take that long until anything happens"),
        "losses of sequences": Threshold(150, "recurrent networks often rest at the start"),
        "losses at chance": Threshold(100, "where the loss of knowing nothing is known"),
        "improvement": Threshold(0.02, "of the loss; batches differ by more"),
    },
)
def loss_not_falling(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """The loss is where it was at the start."""
    losses = history.losses
    is_sequence = any(_SEQUENCE.search(layer.class_name or "") for layer in facts.layers)
    least = limits["losses of sequences" if is_sequence else "losses"]
    if len(losses) < least or history.first_step > 1 or facts.loss.is_of_own_step:
        return
    improvement, so_far = limits["improvement"], apparent_progress(history, facts)
    if not so_far < max(improvement, 0.05) or has_learned(history, facts):
        return
    chance = chance_level(history, facts)
    # After so long, what is hardly below chance has learned nothing that matters.
    is_at_chance = losses.recent > 0.95 * chance and len(losses) >= limits["losses at chance"]
    is_flat = so_far < improvement and not _has_a_trend(history)
    if history.is_warming_up() or not (is_flat or is_at_chance):
        return
    yield Symptom(
        title=f"The loss has not fallen in {len(losses):,} steps.",
        evidence={
            "loss at the start": losses.initial,
            "loss now": losses.recent,
            **({"loss of knowing nothing": chance} if math.isfinite(chance) else {}),
        },
        since=int(losses.steps[0]),
    )


@rule(
    "loss-oscillating",
    remedy="Lower the learning rate, use larger batches, or average over more of them.",
    thresholds={
        "losses": Threshold(20, "enough to tell swings from a single odd batch"),
        "swing": Threshold(3.0, "between high and low losses of the window, as a factor"),
        "turns": Threshold(0.5, "of the steps at which it turns round; of pure noise it is 2/3"),
        "improvement": Threshold(0.05, "a network that learns is left alone"),
    },
)
def loss_oscillating(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """The loss swings widely up and down, and does not get lower."""
    losses = history.losses
    # Losses of a few samples swing by themselves, and of how many they are may not be known.
    least = limits["losses"] * (1 if (facts.batch_size or 0) >= 16 else 3)
    if len(losses) < least or not apparent_progress(history, facts) < limits["improvement"]:
        return
    if has_learned(history, facts):
        return
    window = losses.last(int(limits["losses"]))
    if not np.all(np.isfinite(window)) or window.min() <= 0:
        return
    # Quicker than numpy.quantile, and between the same losses.
    ordered = np.sort(window)
    tenth = window.size // 10
    low, high = ordered[tenth], ordered[-1 - tenth]
    changes = np.diff(window)
    turns = float(np.mean(np.sign(changes[1:]) != np.sign(changes[:-1])))
    if high < limits["swing"] * low or turns < limits["turns"]:
        return
    yield Symptom(
        title=f"The loss swings between {low:.3g} and {high:.3g} without falling.",
        evidence={
            "low (10 %)": float(low),
            "high (90 %)": float(high),
            "loss at the start": losses.initial,
        },
        since=int(losses.steps[-window.size]),
    )


@rule(
    "loss-diverging",
    severity=Severity.ERROR,
    remedy="Lower the learning rate by a factor of 10, clip gradients, or scale the targets.",
    thresholds={
        "growth": Threshold(3.0, "over its level at the start; batches differ by less"),
        "losses": Threshold(5, "in a row; a few odd batches are no divergence"),
    },
)
def loss_diverging(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """The loss is several times what it was at the start, or falls without bound."""
    losses = history.losses
    count = int(limits["losses"])
    if len(losses) < 2 * count or not math.isfinite(losses.initial):
        return
    window = losses.last(count)
    # The first step's own: after it, the level may be that of the fault already.
    start = min(losses.initial, float(losses.values[0])) if losses.initial > 0 else losses.initial
    # From 0 a factor says nothing; what it was at its best gives the scale.
    scale = abs(start) or 1.0
    if not np.all(window > start + (limits["growth"] - 1.0) * scale):
        return
    if window.min() <= np.max(losses.values[:count]) and len(losses) < 4 * count:
        return
    # A network that is trained on starts low, and soon comes up a little.
    if window.max() < chance_level(history, facts):
        return
    yield Symptom(
        title=f"The loss diverges: from {start:.3g} to {window[-1]:.3g}.",
        evidence={"loss at the start": start, "lowest of the last": float(window.min())},
        since=int(losses.steps[-count]),
    )


@rule(
    "negative-loss",
    severity=Severity.ERROR,
    remedy=(
        "This loss cannot be negative for labels it is made for: check the labels' range, the sign "
        "of a loss of your own, and whether the output is what the loss expects."
    ),
    thresholds={
        "losses": Threshold(2, "below 0; one may be rounding"),
        "margin": Threshold(1e-3, "below 0; rounding gives -1e-7"),
    },
)
def negative_loss(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """A loss that cannot be negative is."""
    is_known = loss_kind(facts.loss.name) is not None
    if not (is_nonnegative(facts) or (not is_known and _falls_without_bound(history))):
        return
    count = int(limits["losses"])
    window = history.losses.last(count)
    if window.size < count or not np.all(window < -limits["margin"]):
        return
    unbounded = not is_nonnegative(facts)
    yield Symptom(
        title="The loss falls below 0 without bound." if unbounded else "The loss is negative.",
        evidence={"loss": float(window[-1]), "loss at the start": history.losses.initial},
        since=int(history.losses.steps[-count]),
        severity=Severity.WARNING if unbounded else None,
    )


_NONNEGATIVE = frozenset(
    {
        "mean_squared_error",
        "mse",
        "mean_absolute_error",
        "mae",
        "huber",
        "log_cosh",
        "smooth_l1",
        "mean_absolute_percentage_error",
        "mape",
        "mean_squared_logarithmic_error",
        "msle",
        "binary_crossentropy",
        "binary_focal_crossentropy",
        "categorical_crossentropy",
        "categorical_focal_crossentropy",
        "sparse_categorical_crossentropy",
        "cross_entropy",
        "hinge",
        "squared_hinge",
        "categorical_hinge",
    }
)


def is_nonnegative(facts: ModelFacts) -> bool:
    """Whether the loss is known to be at least 0 for targets in its domain."""
    given = facts.loss.is_nonnegative
    return facts.loss.name in _NONNEGATIVE if given is None else given


def _falls_without_bound(history: History) -> bool:
    """Whether the loss falls ever faster below 0, as it does when its sign is wrong."""
    losses = history.losses
    if len(losses) < 15 or not losses.recent < -10.0 * abs(losses.initial):
        return False
    values = losses.last(15)
    first, middle, last = (float(np.mean(part)) for part in np.split(values, 3))
    return first > middle > last and middle - last > 1.2 * (first - middle)


def _has_a_trend(history: History) -> bool:
    """Whether the loss falls by more than its noise explains."""
    values = history.losses.values
    values = values[np.isfinite(values)]
    third = values.size // 3
    first, last = values[:third], values[-third:]
    noise = math.hypot(float(first.std()), float(last.std())) / math.sqrt(third)
    return float(first.mean() - last.mean()) > 2.5 * noise
