"""Metrics that are shares of right answers."""

import math
import re

from gradwatch.diagnosis.history import History

_SCORE = re.compile(r"(\w+_)?(acc|accuracy|auc|f1|f1_score)", re.IGNORECASE)
_OF_VALIDATION = re.compile(r"(val|valid|validation|test|eval|dev)", re.IGNORECASE)


def is_score(name: str) -> bool:
    """Whether a metric of this name is a share of right answers, or behaves like one."""
    return _SCORE.fullmatch(name) is not None


def newest_accuracy(history: History) -> float:
    """The newest accuracy on the training data, or else on others."""
    logs = {name: series[-1][1] for name, series in history.metrics.items()}
    if history.epochs:
        logs |= history.epochs[-1].logs
    known = [
        (_OF_VALIDATION.match(name) is not None, value)
        for name, value in logs.items()
        if is_score(name) and math.isfinite(value)
    ]
    return min(known)[1] if known else math.nan
