"""The cost of measuring."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gradwatch.util import duration


@dataclass(frozen=True)
class Cost:
    """The cost of a monitor, as it has measured it on this machine and model.

    Times are NaN until they are known, which takes some steps with measuring and some
    without. Compiling the measured step and steps with histograms are not part of them.

    Attributes:
        budget: the slowdown that is allowed, as a fraction; None if the user has chosen the
            steps.
        interval: the steps that are multiples of it are measured, besides the first ones; None
            without a budget.
        since_step: the first step to which that interval applied.
        step_seconds: the time of a step that is not measured.
        added_seconds: the time that measuring adds to training per measured step, also
            through other threads and the device.
        fraction: the slowdown of training so far, as a fraction. NaN without evidence: enough
            steps with and without measuring, and a difference that is no noise.
        compile_seconds: the extra time of the first measured step: mostly compilation.
        evidence: the number of measured steps behind `added_seconds`.
        steps: how many steps there were.
        measured_steps: how many of them were measured.

    Example:

    >>> import dataclasses
    >>> from gradwatch.watches.budget import Cost
    >>> cost = Cost(0.01, 5, 120, step_seconds=0.02, added_seconds=0.0007, fraction=0.007,
    ...             compile_seconds=1.2, evidence=30, steps=1000, measured_steps=200)
    >>> cost.words()
    'measures every 5th step, for 0.70% of the training time'

    Of a training that takes no time, seconds say more:

    >>> dataclasses.replace(cost, step_seconds=0.0002, fraction=8.0).words()
    'measures every 5th step, for 1.6 s beside 0.2 s of training'
    """

    budget: float | None
    interval: int | None
    since_step: int
    step_seconds: float = math.nan
    added_seconds: float = math.nan
    fraction: float = math.nan
    compile_seconds: float = math.nan
    evidence: int = 0
    steps: int = 0
    measured_steps: int = 0

    @property
    def is_known(self) -> bool:
        """Whether there is evidence for `fraction`."""
        return not math.isnan(self.fraction)

    def facts(self) -> dict[str, Any]:
        """The same for JSON, with None in place of NaN."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(self).items()
        }

    def words(self) -> str:
        """The same in words; empty if it is not known."""
        if not self.is_known:
            return ""
        if self.interval is None:
            return f"measuring takes {self.share()}"
        return f"measures every {_ordinal(self.interval)}step, for {self.share()}"

    def share(self) -> str:
        """The known cost: a share of the training time, or seconds where those are more."""
        if self.fraction < 1:
            return f"{self.fraction:.2%} of the training time"
        training = self.steps * self.step_seconds
        return f"{duration(self.fraction * training)} beside {duration(training)} of training"


def in_words(facts: object) -> str:
    """The words for the `facts` of a cost; empty if it is not known."""
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
