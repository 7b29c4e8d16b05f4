"""Scores that a loop reports: they tell that it learns where its loss does not."""

import math
import re

import numpy as np

from gradwatch.diagnosis.history import History

_SCORE = re.compile(
    r"(^|[_/. -])(acc|accuracy|auc|bleu|dice|f1|iou|precision|psnr|r2|recall|return|returns|reward"
    r"|rewards|score|success|win_rate)($|[_/. -])",
    re.IGNORECASE,
)
_FEWEST = 12
_SIGNIFICANT = 4.0
"""Standard errors between the first and the last third."""


def rises(history: History) -> bool:
    """Whether a score of which more is better has risen beyond its noise."""
    for name, series in history.metrics.items():
        if len(series) < _FEWEST or not _SCORE.search(name):
            continue
        values = np.array([value for _, value in series])
        third = values.size // 3
        first, last = values[:third], values[-third:]
        noise = math.hypot(first.std(ddof=1), last.std(ddof=1)) / math.sqrt(third)
        if last.mean() - first.mean() > max(_SIGNIFICANT * noise, 0.0):
            return True
    return False
