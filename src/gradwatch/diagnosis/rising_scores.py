"""Scores that a loop reports: they tell whether it learns where its loss does not."""

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
_HARDLY = 2.0
"""Standard errors; noise alone rarely exceeds them."""


def rises(history: History) -> bool:
    """Whether a score of which more is better has risen beyond its noise."""
    return any(rise > _SIGNIFICANT for rise in _rises(history, _FEWEST))


def rests(history: History, count: int) -> bool:
    """Whether there are scores of so many steps, and none has risen by more than its noise."""
    found = _rises(history, count)
    return bool(found) and all(rise < _HARDLY for rise in found)


def fallen(history: History, count: int) -> dict[str, tuple[float, float]]:
    """The scores that have lost half of what they were, beyond their noise: before and now."""
    return {
        name: (before, now)
        for name, (before, now, noise) in _thirds(history, count).items()
        if before - now > max(_SIGNIFICANT * noise, 0.5 * abs(before))
    }


def _rises(history: History, fewest: int) -> list[float]:
    """By how many standard errors each score has risen from the first to the last third."""
    found = []
    for before, now, noise in _thirds(history, fewest).values():
        rise = now - before
        found.append(rise / noise if noise > 0 else math.inf if rise > 0 else 0.0)
    return found


def _thirds(history: History, fewest: int) -> dict[str, tuple[float, float, float]]:
    """Of each score the means of the first and the last third, and the noise of both."""
    found = {}
    for name, series in history.metrics.items():
        if len(series) < fewest or not _SCORE.search(name):
            continue
        values = np.array([value for _, value in series])
        third = values.size // 3
        first, last = values[:third], values[-third:]
        noise = math.hypot(first.std(ddof=1), last.std(ddof=1)) / math.sqrt(third)
        found[name] = float(first.mean()), float(last.mean()), noise
    return found
