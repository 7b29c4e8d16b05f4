"""Which of several outputs are no better than a constant guess."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradwatch.diagnosis.chance import Level
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.value_table import Array

_PAIRS = 10
"""Measured steps with both losses, that of an output and that of its guess."""
_SKILL = 0.05
"""The share of the guess's loss that an output must have removed; batches differ by less."""
_SHARE = 0.2
"""Of the guess for all outputs; what counts for less learns late, and may not matter."""
_DROWNED = 1e-4
"""Of the guess for all outputs; a loss that counts for so little cannot be meant to."""
_DIFFER = 0.3
"""The entropy of classes, from which on there is something to tell apart."""


@dataclass(frozen=True)
class IdleOutput:
    """An output that has learned nothing; `share` is that of its guess in the one for all."""

    name: str
    skill: Level
    share: float

    @property
    def is_drowned(self) -> bool:
        """Whether its loss counts for nothing beside those of the others."""
        return self.share < _DROWNED


def idle_outputs(history: History) -> Iterator[IdleOutput]:
    """The outputs that are certainly no better than a guess, and do not get better."""
    total = np.array([value for _, value in history.numbers.get("constant_loss", ())])
    for name, series in history.numbers.items():
        kind, _, output = name.partition("/")
        guesses = history.numbers.get(f"constant_loss/{output}", ())
        if kind != "output_loss" or not guesses or not total.size:
            continue
        steps, losses = np.array(series).T
        # A number is kept where it has changed.
        places = np.searchsorted([step for step, _ in guesses], steps, side="right") - 1
        both = np.stack([losses, np.array(guesses)[places.clip(min=0), 1]], axis=1)
        both = both[np.isfinite(both).all(axis=1)]
        third = len(both) // 3
        share = float(both[:, 1].mean() / max(total.mean(), 1e-300)) if len(both) else 0.0
        if third < _PAIRS or not (share > _SHARE or 0.0 < share < _DROWNED):
            continue
        before, now = _skill(both[-2 * third : -third]), _skill(both[-third:])
        if now.high < _SKILL and now.value - before.value < 2.0 * (now.error + before.error):
            yield IdleOutput(output, now, share)


def skill_for_the_rest(history: History) -> tuple[float, Level] | None:
    """The share of the most frequent class, and the skill in telling all others apart.

    None where that is not known, or where these do not differ.
    """
    series = [history.numbers.get(f"rest_{name}", ()) for name in ("share", "loss", "guess")]
    if min(map(len, series)) < 3 * _PAIRS:
        return None
    shares, losses, guesses = (np.array([x for _, x in each]) for each in series)
    third = min(losses.size, guesses.size) // 3
    both = np.stack([losses[-third:], guesses[-third:]], axis=1)
    both = both[np.isfinite(both).all(axis=1)]
    if len(both) < _PAIRS or not both[:, 1].mean() > _DIFFER:
        return None
    return 1.0 - float(shares[-third:].mean()), _skill(both)


def _skill(both: Array) -> Level:
    losses, guesses = both.T
    left = float(losses.mean() / guesses.mean())
    error = float((losses - left * guesses).std() / guesses.mean()) / len(losses) ** 0.5
    return Level(1.0 - left, error)
