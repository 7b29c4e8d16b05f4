"""A model that gets better at what it has seen, and worse at what it has not."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradwatch.core import ModelFacts
from gradwatch.diagnosis.finding import Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits
from gradwatch.diagnosis.rule import Threshold, rule


@rule(
    "overfitting",
    remedy=(
        "Stop at the best epoch (EarlyStopping with restore_best_weights), get more data or "
        "augment it, or regularise: dropout, weight decay, a smaller model."
    ),
    thresholds={
        "epochs": Threshold(5, "since validation was best; single epochs go up and down"),
        "rise": Threshold(0.2, "of the validation loss over its best"),
        "fall": Threshold(0.8, "of the training loss since then: else training just swings"),
        "gap": Threshold(1.5, "between validation and training loss, as a factor"),
    },
)
def overfitting(history: History, facts: ModelFacts, limits: Limits) -> Iterator[Symptom]:
    """The validation loss rises, epoch after epoch, while the training loss falls."""
    both = [
        (epoch.step, epoch.logs["loss"], epoch.logs["val_loss"])
        for epoch in history.epochs
        if math.isfinite(epoch.logs.get("loss", math.nan))
        and math.isfinite(epoch.logs.get("val_loss", math.nan))
    ]
    count = int(limits["epochs"])
    if len(both) <= count:
        return
    best = min(range(len(both)), key=lambda i: both[i][2])
    step, train_then, lowest = both[best]
    _, train, validation = both[-1]
    since_then = [validation for _, _, validation in both[best + 1 :]]
    if len(since_then) < count or lowest <= 0:
        return
    # Not a single good epoch in between: the last ones are all worse.
    rose = min(since_then[-count:]) > (1.0 + limits["rise"]) * lowest
    if not rose or train > limits["fall"] * train_then or validation < limits["gap"] * train:
        return
    yield Symptom(
        title=f"Overfitting: validation was best at step {step:,}.",
        evidence={
            "validation loss at its best": lowest,
            "validation loss now": validation,
            "training loss then": train_then,
            "training loss now": train,
        },
        since=step,
    )
