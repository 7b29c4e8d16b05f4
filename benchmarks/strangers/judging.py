"""From lines of results to labels that are confirmed by outcomes, and to scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.faults.outcome import MARGIN
from benchmarks.faults.scoring import wilson

from .kinds import KINDS
from .program import Case
from .runner import Line


@dataclass(frozen=True)
class Judged:
    """A run whose outcome confirms its label, and what was said of it."""

    case: Case
    line: Line

    @property
    def alarms(self) -> list[dict[str, Any]]:
        return [each for each in self.line["findings"] if each["severity"] != "info"]

    @property
    def right(self) -> dict[str, Any] | None:
        """The first alarm that names the fault, not before it begins."""
        fault = self.case.fault
        if fault is None:
            return None
        named = [each for each in self.alarms if each["rule"] in KINDS[fault.kind]]
        return next((each for each in named if each["step"] >= fault.step), None)

    @property
    def steps(self) -> float:
        """From the step at which the fault begins to the right alarm, both counted."""
        if self.right is None or self.case.fault is None:
            return math.inf
        return self.right["step"] - self.case.fault.step + 1

    @property
    def layer_is_right(self) -> bool | None:
        """Whether the right alarm names the first bad layer; None where none is defined."""
        fault = self.case.fault
        if fault is None or not fault.layer:
            return None
        said = f"/{self.right['layer']}/".replace(".", "/") if self.right else ""
        return any(f"/{layer}/" in said for layer in fault.layer)

    @property
    def learned(self) -> bool:
        """Whether the run is better than a constant guess by more than chance explains."""
        return self.line["score"] > 0.1


def confirm(lines: Iterable[Line], cases: Mapping[str, Case]) -> tuple[list[Judged], list[str]]:
    """The runs whose outcome confirms their label, and a line about each of the others."""
    lines = [line for line in lines if line["name"] in cases]
    scores = {(line["name"], line["seed"]): line["score"] for line in lines}
    judged, dropped = [], []
    for line in lines:
        if line["mode"] == "bare":
            continue
        case = cases[line["name"]]
        why = _not_confirmed(case, line, scores)
        if why:
            dropped.append(f"{line['name']}-{line['seed']} {line['mode']}: {why}")
        else:
            judged.append(Judged(case, line))
    return judged, dropped


def _not_confirmed(case: Case, line: Line, scores: Mapping[tuple[str, int], float]) -> str:
    """Why the outcome does not confirm the label; empty if it does."""
    if "error" in line:
        return line["error"]
    score = line["score"]
    if case.learns is not None:
        return "" if score >= case.learns else f"score {score:.2f}, asked {case.learns}"
    twin = scores.get((case.twin, line["seed"]), math.nan)
    if not twin > MARGIN:
        return f"its twin has a score of {twin:.2f}"
    is_worse = not math.isfinite(score) or score <= twin - MARGIN
    return "" if is_worse else f"score {score:.2f}, twin {twin:.2f}"


def summarise(judged: Sequence[Judged]) -> dict[str, Any]:
    """The numbers of a table's row."""
    faulty = [each for each in judged if each.case.fault]
    healthy = [each for each in judged if not each.case.fault]
    layers = [each.layer_is_right for each in faulty if each.layer_is_right is not None]
    noisy = sum(bool(each.alarms) for each in healthy)
    right = sum(each.right is not None for each in faulty)
    steps = sorted(each.steps for each in faulty)
    return {
        "faulty": len(faulty),
        "faulty_programs": len({each.case.name for each in faulty}),
        "kinds": len({each.case.fault.kind for each in faulty if each.case.fault}),
        "right": right,
        "right_interval": wilson(right, len(faulty)),
        "detected": sum(bool(each.alarms) for each in faulty),
        "steps": steps[len(steps) // 2] if steps and steps[len(steps) // 2] < math.inf else None,
        "layers": len(layers),
        "layers_right": sum(layers),
        "healthy": len(healthy),
        "healthy_programs": len({each.case.name for each in healthy}),
        "healthy_alarms": noisy,
        "healthy_interval": wilson(noisy, len(healthy)),
    }


NOT_LEARNED = "learned nothing"


def calibration(judged: Sequence[Judged]) -> dict[str, tuple[int, int]]:
    """By verdict: how many runs have it, and how many of them have learned."""
    counts: dict[str, tuple[int, int]] = {}
    for each in judged:
        verdict = each.line.get("verdict")
        if verdict:
            runs, learned = counts.get(verdict, (0, 0))
            counts[verdict] = runs + 1, learned + each.learned
    return dict(sorted(counts.items()))
