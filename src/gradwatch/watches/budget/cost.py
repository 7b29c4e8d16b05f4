"""What measuring costs, as facts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Cost:
    """What a monitor has found out about its own cost, on this machine and model.

    Times are NaN as long as they are not known: it takes some steps, and steps
    that are not measured to compare with. Compiling the measured step, and steps
    with histograms, are not part of `fraction`.

    Attributes:
        budget: the slowdown that was allowed, as a fraction; None if the steps to
            measure were given instead.
        interval: the steps that are multiples of it are measured; None without a budget.
        since_step: the first step to which that interval applied.
        step_seconds: what a step takes that is not measured.
        added_seconds: what measuring adds to training per measured step, with all
            that happens on other threads and on the device.
        fraction: the slowdown of training, as a fraction.
        compile_seconds: what the first measured step took longer than the others:
            mostly the compilation of the measured step.
        evidence: how many measured steps `added_seconds` was found from.

    Example:

    >>> from gradwatch.watches.budget import Cost
    >>> cost = Cost(0.01, 5, 120, step_seconds=0.02, added_seconds=0.0007, fraction=0.007,
    ...             compile_seconds=1.2, evidence=30)
    >>> cost.words()
    'measures every 5th step, for 0.70% of the training time'
    """

    budget: float | None
    interval: int | None
    since_step: int
    step_seconds: float = math.nan
    added_seconds: float = math.nan
    fraction: float = math.nan
    compile_seconds: float = math.nan
    evidence: int = 0

    def facts(self) -> dict[str, Any]:
        """The same for JSON, which has no NaN: what is not known is None."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(self).items()
        }

    def words(self) -> str:
        """The same in half a sentence; empty if there is nothing to say yet."""
        pace = "" if self.interval is None else f"measures every {_ordinal(self.interval)}step"
        if math.isnan(self.fraction):
            return pace
        share = f"{self.fraction:.2%} of the training time"
        return f"{pace}, for {share}" if pace else f"measuring takes {share}"


def in_words(facts: object) -> str:
    """What the `facts` of a cost say; empty if they are none that are known here."""
    if not isinstance(facts, Mapping):
        return ""
    known: dict[str, Any] = {k: math.nan if v is None else v for k, v in facts.items()}
    known |= {name: facts.get(name) for name in ("budget", "interval")}
    try:
        return Cost(**known).words()
    except (TypeError, ValueError):
        return ""  # of another version


def _ordinal(number: int) -> str:
    """`5th ` for 5, and nothing for 1: every step."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    return "" if number == 1 else f"{number}{ends.get(number, 'th')} "
