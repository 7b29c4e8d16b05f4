"""How a run came out, and whether that confirms its label.

A score is 1 for all right and 0 for no better than knowing nothing: accuracy above chance,
twice the area under the ROC curve less 1, or the explained variance; never below -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .program import Program

MARGIN = 0.15
"""How much worse than its healthy twin a faulty program must score."""
LOSS_FACTOR = 1.5
"""How much higher its loss must stay, where the loss is what is wrong; or it is below 0."""
OVERFIT_FACTOR = 1.2
"""How much the validation loss must have risen above its lowest."""
OVERFIT_SHARE = 0.1
"""How much of the first epoch's loss that rise must be at least."""


def score(task: str, truth: NDArray[Any], answer: NDArray[Any]) -> float:
    """How good answers are."""
    answer = np.asarray(answer, np.float64).reshape(len(truth), -1)
    if not np.isfinite(answer).all():
        return -1.0
    if task == "classes":
        if answer.shape[1] == 1:  # One number cannot tell more than two classes.
            right = np.mean(np.round(answer[:, 0]) == truth)
        else:
            right = np.mean(answer.argmax(1) == truth)
        chance = 1 / (truth.max() + 1)
        return float(max(-1.0, (right - chance) / (1 - chance)))
    truth = truth.reshape(len(truth), -1)
    if task == "binary":
        best = answer[:, -1] - (answer[:, 0] if answer.shape[1] > 1 else 0)
        return _ranking(truth[:, 0], best)
    if task == "columns":
        return float(np.mean([_ranking(t, a) for t, a in zip(truth.T, answer.T, strict=True)]))
    if task == "direction":
        plain = np.broadcast_to(truth.mean(0), truth.shape)
        return float(1 - _angle(truth, answer) / _angle(truth, plain))
    spread = np.mean((truth - truth.mean(0)) ** 2)
    return float(max(-1.0, 1 - np.mean((truth - answer) ** 2) / spread))


def _ranking(truth: NDArray[Any], value: NDArray[Any]) -> float:
    positive, negative = value[truth == truth.max()], value[truth != truth.max()]
    above = np.mean(positive[:, None] > negative) + 0.5 * np.mean(positive[:, None] == negative)
    return float(2 * above - 1)


def _angle(a: NDArray[Any], b: NDArray[Any]) -> float:
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(np.mean(1 - np.sum(a * b, 1) / np.maximum(norms, 1e-12)))


def verdict(
    program: Program, score: float, losses: Sequence[float], epochs: Sequence[dict[str, float]],
    non_finite: int | None, twin: dict[str, Any] | None,
) -> tuple[bool, str]:  # fmt: skip
    """Whether what was measured confirms the label, and why.

    Args:
        score: of the trained model.
        losses: of each step.
        epochs: what epochs ended with.
        non_finite: the first step at which anything was not finite.
        twin: the outcome of the healthy twin; None for a healthy program.
    """
    fault = program.fault
    if fault is None or twin is None:
        if non_finite is not None and program.policy != "mixed_float16":
            return False, f"not finite at step {non_finite}"
        overfits, said = _overfits(epochs)
        if overfits:
            return False, said
        return score >= program.learns, f"score {score:.2f}, asked {program.learns:.2f}"
    if fault.confirm == "non-finite":
        said = f"not finite at step {non_finite}, expected at {fault.step}; score {score:.2f}"
        return non_finite == fault.step and score <= twin["score"] - MARGIN, said
    if fault.confirm == "overfit":
        return _overfits(epochs)
    said = f"score {score:.2f}, healthy twin {twin['score']:.2f}"
    if score <= twin["score"] - MARGIN:
        return True, said
    if fault.confirm == "loss":
        own, other = float(np.mean(losses[-10:])), twin["loss"]
        said += f"; loss {own:.3g}, healthy twin {other:.3g}"
        return own < 0 <= other or not own < LOSS_FACTOR * other, said
    return False, said


def _overfits(epochs: Sequence[dict[str, float]]) -> tuple[bool, str]:
    """Whether the validation loss rises while the training loss has fallen, and in words."""
    course = [each["val_loss"] for each in epochs if np.isfinite(each["val_loss"])]
    if not course or not min(course) > 0 or not epochs[0]["loss"] > 0:
        return False, "there is no validation loss above 0"
    rise, fall = course[-1] / min(course), epochs[-1]["loss"] / epochs[0]["loss"]
    said = f"validation loss {rise:.2f} times its lowest, training loss {fall:.2f} of its first"
    # Near 0, where all is learned, a loss may double without meaning anything.
    start = max(course[0], epochs[0]["loss"])
    matters = course[-1] - min(course) >= OVERFIT_SHARE * start
    return rise >= OVERFIT_FACTOR and matters and fall < 0.5, said
