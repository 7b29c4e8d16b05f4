"""The verdict on a training: what it came to, in a line and in numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gradwatch.core import ModelFacts
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.judgement import Word, judgement
from gradwatch.diagnosis.validation import generalisation
from gradwatch.util import Json


@dataclass(frozen=True)
class Verdict:
    """Whether the training has come to anything.

    Attributes:
        word: `"learned"`, `"still learning"`, `"learned nothing"`, `"got worse"` or `"unknown"`.
        step: the step at which it was given.
        evidence: the numbers behind it: the loss at the start and now, that of the best constant
            guess, the accuracy.
        interval: the 95 % interval of the current loss; None if it is not known.
        generalises: whether it holds for the validation data; None if that is not known.
        since_epoch: the best epoch, if it did not generalise afterwards; else None.

    Example:

    >>> from gradwatch.diagnosis.verdict import Verdict
    >>> numbers = {"initial loss": 2.31, "current loss": 0.21,
    ...            "loss of the best constant guess": 2.3}
    >>> print(Verdict("learned", 300, numbers, (0.2, 0.22), False, 6).text())
    learned (loss 0.21, best constant guess 2.3); does not generalise since epoch 6
    """

    word: str = str(Word.UNKNOWN)
    step: int = 0
    evidence: Mapping[str, float] = field(default_factory=dict)
    interval: tuple[float, float] | None = None
    generalises: bool | None = None
    since_epoch: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether anything can be said."""
        return self.word != Word.UNKNOWN

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """The verdict as a line."""
        numbers = [
            f"{short} {self.evidence[name]:.3g}"
            for name, short in _SHORT.items()
            if name in self.evidence
        ]
        text = self.word + (f" ({', '.join(numbers)})" if numbers else "")
        if self.generalises is None:
            return text
        since = "" if self.since_epoch is None else f" since epoch {self.since_epoch:,}"
        return f"{text}; {'generalises' if self.generalises else f'does not generalise{since}'}"

    def facts(self) -> dict[str, Json]:
        """The verdict as plain values, for JSON."""
        return {
            "word": self.word,
            "text": self.text(),
            "step": self.step,
            "evidence": dict(self.evidence),
            "interval": None if self.interval is None else list(self.interval),
            "generalises": self.generalises,
            "since_epoch": self.since_epoch,
        }

    @classmethod
    def from_json(cls, values: Any) -> Verdict | None:
        """Parse the result of `facts`; None if it is none."""
        try:
            interval = values["interval"]
            return cls(
                str(values["word"]),
                int(values["step"]),
                {str(name): float(x) for name, x in values["evidence"].items()},
                None if interval is None else (float(interval[0]), float(interval[1])),
                values["generalises"],
                values["since_epoch"],
            )
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            return None


_SHORT = {
    "current loss": "loss",
    "regularization": "regularization",
    "loss of the best constant guess": "best constant guess",
    "accuracy": "accuracy",
}


def verdict_on(history: History, facts: ModelFacts) -> Verdict:
    """The verdict on what is known of a training so far."""
    return history.cached_per_step("verdict", lambda: _verdict_on(history, facts))


def _verdict_on(history: History, facts: ModelFacts) -> Verdict:
    so_far = judgement(history, facts)
    interval = so_far.now.low, so_far.now.high
    held = generalisation(history, facts)
    since = held.since.epoch if held is not None and held.since is not None else 0
    return Verdict(
        word=str(so_far.word),
        step=history.step,
        evidence=so_far.evidence(),
        interval=interval if all(map(math.isfinite, interval)) else None,
        generalises=None if held is None else held.is_good,
        since_epoch=since or None,
    )
