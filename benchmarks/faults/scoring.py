"""From what a tool says of every run to the numbers by which tools are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from .alarms import Alarm

Label = Mapping[str, Any]


@dataclass(frozen=True)
class Judged:
    """What a tool said of one run, held against the run's label."""

    label: Label
    alarms: Sequence[Alarm]
    right: Alarm | None = field(default=None)
    """Its first alarm that names the fault rightly."""

    @property
    def steps(self) -> int | None:
        """From the first step at which the fault can be known to the right alarm, both counted."""
        if self.right is None:
            return None
        return self.right.step - (self.label.get("step") or 1) + 1

    @property
    def layer_is_right(self) -> bool | None:
        """Whether the right alarm names the first bad layer; None where none is defined."""
        if self.label["healthy"] or self.label["layer"] is None:
            return None
        return self.right is not None and self.right.layer in self.label["layer"]


def judge(label: Label, alarms: Sequence[Alarm]) -> Judged:
    """Hold a tool's alarms against a run's label."""
    ordered = sorted(alarms, key=lambda alarm: alarm.step)
    accepted = set(label.get("symptoms", ()))
    right = next((alarm for alarm in ordered if accepted & set(alarm.names)), None)
    return Judged(label, ordered, right)


def wilson(hits: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share.

    >>> low, high = wilson(0, 100)
    >>> round(low, 3), round(high, 3)
    (0.0, 0.037)
    """
    if of == 0:
        return 0.0, 1.0
    share = hits / of
    centre = share + z * z / (2 * of)
    spread = z * sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    low, high = ((centre + sign * spread) / (1 + z * z / of) for sign in (-1, 1))
    return max(0.0, low), min(1.0, high)


def summarise(judged: Sequence[Judged]) -> dict[str, Any]:
    """The numbers of a tool over all runs."""
    faulty = [each for each in judged if not each.label["healthy"]]
    healthy = [each for each in judged if each.label["healthy"]]
    noisy = sum(bool(each.alarms) for each in healthy)
    programs = {each.label["program"] for each in healthy}
    noisy_programs = {each.label["program"] for each in healthy if each.alarms}
    kinds = sorted({each.label["kind"] for each in faulty})
    return {
        "faulty": _of_faulty(faulty),
        "kinds": {
            kind: _of_faulty([each for each in faulty if each.label["kind"] == kind])
            for kind in kinds
        },
        "healthy": {
            "runs": len(healthy),
            "alarms": sum(len(each.alarms) for each in healthy),
            "alarms_per_run": _share(sum(len(each.alarms) for each in healthy), len(healthy)),
            "runs_with_alarm": noisy,
            "share": _share(noisy, len(healthy)),
            "interval": wilson(noisy, len(healthy)),
            "programs": len(programs),
            "programs_with_alarm": len(noisy_programs),
        },
    }


def _of_faulty(judged: Sequence[Judged]) -> dict[str, Any]:
    found = sum(bool(each.alarms) for each in judged)
    right = [each for each in judged if each.right is not None]
    visible = [each for each in judged if each.label["visible"] and not each.label.get("step")]
    non_finite = [each for each in judged if each.label.get("step")]
    layers = [each.layer_is_right for each in judged if each.layer_is_right is not None]
    return {
        "runs": len(judged),
        "programs": len({each.label["program"] for each in judged}),
        "detected": _share(found, len(judged)),
        "right": _share(len(right), len(judged)),
        "right_interval": wilson(len(right), len(judged)),
        "first_alarm_right": _share(
            sum(each.alarms[0] is each.right for each in right), len(judged)
        ),
        "alarms_per_run": _share(sum(len(each.alarms) for each in judged), len(judged)),
        "steps": _steps(judged),
        "steps_visible": _steps(visible),
        "steps_non_finite": _steps(non_finite),
        "layers": len(layers),
        "layer_right": _share(sum(layers), len(layers)),
    }


def _steps(judged: Sequence[Judged]) -> dict[str, float | None]:
    """Median and 95th percentile over the runs; one without a right alarm counts as endless."""
    steps = [np.inf if each.steps is None else each.steps for each in judged]
    if not steps:
        return {"median": None, "p95": None}
    # The higher of two neighbours, so that nothing is averaged with infinity.
    at = {"median": 50, "p95": 95}
    values = {name: float(np.percentile(steps, q, method="higher")) for name, q in at.items()}
    return {name: value if np.isfinite(value) else None for name, value in values.items()}


def _share(hits: float, of: int) -> float | None:
    return hits / of if of else None
