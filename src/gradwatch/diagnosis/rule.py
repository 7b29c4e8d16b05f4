"""What a rule is, and how one is declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from gradwatch.core import Kind, ModelFacts
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.limits import Limits


class Threshold(NamedTuple):
    """A number that a rule goes by, and why it is that."""

    value: float
    reason: str


Check: TypeAlias = Callable[..., Iterable[Symptom] | None]


@dataclass(frozen=True)
class Rule:
    """A pure function of the history, and what is said about what it finds.

    Attributes:
        name: in lower case, with hyphens: `dead-units`.
        check: the function; it returns or yields what it sees now, nothing if all is well. It is
            given the `History`, or the `RankData` if it compares them, and facts and limits.
        severity: of its findings, unless a symptom has its own.
        remedy: what to do, unless a symptom has its own.
        thresholds: the numbers that it goes by.
        needs: kinds without a new measurement of which it is not asked.
        about: what it looks for, in one line.
    """

    name: str
    check: Check
    severity: Severity = Severity.WARNING
    remedy: str = ""
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    needs: Sequence[Kind] = ()
    about: str = ""

    def with_thresholds(self, values: Mapping[str, float]) -> Rule:
        """The same rule with other thresholds.

        Raises:
            ValueError: it has none of that name.
        """
        strange = [name for name in values if name not in self.thresholds]
        if strange:
            known = ", ".join(self.thresholds) or "none"
            raise ValueError(
                f"The rule {self.name!r} has no threshold {strange[0]!r}. It has: {known}."
            )
        changed = {name: Threshold(float(value), "as given") for name, value in values.items()}
        return replace(self, thresholds={**self.thresholds, **changed})


RULES: dict[str, Rule] = {}
"""All rules by name, those of users too."""


def rule(
    name: str,
    *,
    severity: Severity | str = Severity.WARNING,
    remedy: str = "",
    thresholds: Mapping[str, Threshold | float] | None = None,
    needs: Sequence[Kind] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function a rule, which every diagnosis from then on asks.

    The function is given the `History`, and, if it takes them, the `ModelFacts` and its
    thresholds. It returns or yields `Symptom`s, or a string for short; nothing if all is
    well. It is asked after each measured step, so it must be quick. If it raises, it is
    switched off for that run, which is said once.

    Args:
        name: what its findings are known by; a rule of the same name is replaced.
        severity: `"info"`, `"warning"` or `"error"`.
        remedy: what to do about what it finds.
        thresholds: the numbers it goes by, which users can change by name.
        needs: ask it only when these kinds were measured in the step.

    Raises:
        ValueError: the severity is none of these, or the name is empty.

    Example:

    >>> from gradwatch import Kind
    >>> from gradwatch.diagnosis import diagnose, rule
    >>> from gradwatch.diagnosis.rule import RULES
    >>> @rule("tiny-weights", thresholds={"rms": 1e-8}, needs=[Kind.WEIGHT])
    ... def tiny_weights(history, facts, limits):
    ...     if history[Kind.WEIGHT].latest("rms").max() < limits["rms"]:
    ...         yield "All weights are tiny."
    >>> RULES.pop("tiny-weights").thresholds["rms"].value
    1e-08
    """
    if not name:
        raise ValueError("A rule needs a name, for its findings to be known by.")
    rank = Severity(severity)
    numbers = {
        key: value if isinstance(value, Threshold) else Threshold(float(value), "as declared")
        for key, value in (thresholds or {}).items()
    }

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        about = (inspect.getdoc(function) or "").partition("\n")[0]
        RULES[name] = Rule(name, _check(function), rank, remedy, numbers, tuple(needs), about)
        return function

    return declare


def _check(function: Callable[..., Any]) -> Check:
    """The function as one of three arguments that yields symptoms."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    taken = sum(each.kind in kinds for each in parameters)
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        taken = 3

    def check(history: History, facts: ModelFacts, limits: Limits) -> list[Symptom]:
        found = function(*(history, facts, limits)[:taken])
        if found is None:
            return []
        several = [found] if isinstance(found, str | Symptom) else found
        return [Symptom(each) if isinstance(each, str) else each for each in several]

    return check
