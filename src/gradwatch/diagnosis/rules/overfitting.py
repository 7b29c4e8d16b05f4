"""A model that improves on its training data and gets worse on other data."""

from __future__ import annotations

import math

from gradwatch.core import ModelFacts
from gradwatch.diagnosis.finding import Symptom, Symptoms
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.rule import Limits, Threshold, rule


@rule(
    "overfitting",
    remedy=(
        "Stop at the best epoch (EarlyStopping with restore_best_weights), get more data or "
        "augment it, or regularize: dropout, weight decay, a smaller model."
    ),
    thresholds={
        "epochs": Threshold(5, "since validation was best; single epochs go up and down"),
        "rise": Threshold(0.2, "of the validation loss over its best"),
        "fall": Threshold(0.8, "of the training loss since then; otherwise training is just noisy"),
        "gap": Threshold(1.5, "factor between validation and training loss"),
    },
)
def overfitting(history: History, facts: ModelFacts, limits: Limits) -> Symptoms:
    """The validation loss rises for several epochs while the training loss falls."""
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
    # Each of the last epochs is worse.
    rose = min(since_then[-count:]) > (1.0 + limits["rise"]) * lowest
    if not rose or train > limits["fall"] * train_then or validation < limits["gap"] * train:
        return
    yield Symptom(
        title=f"The model overfits: the validation loss was lowest at step {step:,}.",
        evidence={
            "best validation loss": lowest,
            "current validation loss": validation,
            "training loss then": train_then,
            "current training loss": train,
        },
        since=step,
    )
