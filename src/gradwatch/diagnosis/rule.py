"""Rules: how one is declared, and its thresholds."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, ModelFacts, Site, SiteInfo
from gradwatch.core import select as selectors
from gradwatch.diagnosis.finding import Severity, Symptom
from gradwatch.diagnosis.history import History


class Threshold(NamedTuple):
    """A number that a rule compares with, and the reason for its value."""

    value: float
    reason: str


ThresholdValues: TypeAlias = Mapping[str, float | Mapping[str, float]]
"""Other thresholds for a rule, by name; or, under a path pattern, for the sites it matches."""


class Limits:
    """The thresholds of a rule, which may differ from site to site.

    `local` has (selector, thresholds by name) for some sites; a later entry wins.
    """

    def __init__(
        self,
        values: Mapping[str, float],
        local: Sequence[tuple[selectors.Spec, Mapping[str, float]]] = (),
    ) -> None:
        self._values = dict(values)
        self._local = [(selectors.as_selector(spec), dict(own)) for spec, own in local]
        self._per_site: dict[tuple[str, tuple[Site, ...]], NDArray[np.float64]] = {}

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def at(self, name: str, path: str) -> float:
        for selector, own in reversed(self._local):
            if name in own and matches(selector, path):
                return own[name]
        return self._values[name]

    def per_site(self, name: str, sites: Sequence[Site]) -> NDArray[np.float64] | float:
        """The threshold at each site; a single number if it is the same everywhere."""
        if not any(name in own for _, own in self._local):
            return self._values[name]
        # The sites of a table are the same tuple from step to step.
        key = name, tuple(sites)
        if key not in self._per_site:
            self._per_site[key] = np.array([self.at(name, site.path) for site in sites])
        return self._per_site[key]


def matches(selector: selectors.Selector, path: str) -> bool:
    """Whether a selector matches a path; shape and dtype are unknown here."""
    site = Site(Kind.OUTPUT, path)
    return selector.matches(SiteInfo(site, (), "", path.rpartition("/")[2]))


Check: TypeAlias = Callable[..., Iterable[Symptom]]


@dataclass(frozen=True)
class Rule:
    """A function that looks for one problem, and the texts of its findings.

    `check` takes the `History` (or the `RankData`, if it compares ranks), the `ModelFacts` and the
    `Limits`, and returns the symptoms it sees now. It runs only at steps at which all kinds in
    `needs` were measured. A symptom may replace `severity` and `remedy`. `about` says in one line
    what the rule looks for.
    """

    name: str
    check: Check
    severity: Severity = Severity.WARNING
    remedy: str = ""
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    needs: Sequence[Kind] = ()
    about: str = ""

    def facts(self) -> dict[str, Any]:
        """The rule as plain values, for JSON: what it looks for, its numbers, their reasons."""
        return {
            "rule": self.name,
            "severity": str(self.severity),
            "about": self.about,
            "remedy": self.remedy,
            "thresholds": {
                name: {"value": threshold.value, "reason": threshold.reason}
                for name, threshold in self.thresholds.items()
            },
        }

    def limits(self, changes: ThresholdValues) -> Limits:
        """The thresholds after the user's changes; raises ValueError for an unknown name."""
        values = {name: threshold.value for name, threshold in self.thresholds.items()}
        local: list[tuple[str, Mapping[str, float]]] = []
        for name, change in changes.items():
            if isinstance(change, Mapping):
                local.append((name, {key: self._checked(key, x) for key, x in change.items()}))
            else:
                values[name] = self._checked(name, change)
        return Limits(values, local)

    def _checked(self, name: str, value: float) -> float:
        if name not in self.thresholds:
            known = ", ".join(self.thresholds) or "none"
            raise ValueError(f"The rule {self.name!r} has no threshold {name!r}. It has: {known}.")
        return float(value)


RULES: dict[str, Rule] = {}
"""All rules by name, including the users' own."""

RuleFunction: TypeAlias = Callable[..., Iterable[Symptom | str] | Symptom | str | None]
F = TypeVar("F", bound=RuleFunction)


def rule(
    name: str,
    *,
    severity: Severity | str = Severity.WARNING,
    remedy: str = "",
    thresholds: Mapping[str, Threshold | float] | None = None,
    needs: Sequence[Kind] = (),
) -> Callable[[F], F]:
    """Declare a function as a rule; every diagnosis created afterwards runs it.

    The function takes the `History` and, optionally, the `ModelFacts` and its thresholds. It
    returns or yields `Symptom`s or plain strings; nothing if all is well. It runs after measured
    steps, so it must be fast. A rule that raises is reported and does not run again.

    Args:
        name: the name of the rule in its findings; a rule of the same name is replaced.
        severity: `"info"`, `"warning"` or `"error"`.
        remedy: what to do about its findings.
        thresholds: the numbers it compares with; users can change them by name.
        needs: run it only at steps at which all these kinds were measured.

    Raises:
        ValueError: the severity is unknown, or the name is empty.

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
        raise ValueError("A rule needs a name. Received: ''")
    if severity not in list(Severity):
        raise ValueError(
            f"severity is one of {', '.join(Severity)}. Received: severity={severity!r} of {name!r}"
        )
    level = Severity(severity)
    numbers = {
        key: value if isinstance(value, Threshold) else Threshold(float(value), "as declared")
        for key, value in (thresholds or {}).items()
    }

    def declare(function: F) -> F:
        about = (inspect.getdoc(function) or "").partition("\n")[0]
        RULES[name] = Rule(name, _check(function), level, remedy, numbers, tuple(needs), about)
        return function

    return declare


def _check(function: RuleFunction) -> Check:
    """Adapt a function of one to three arguments that may return strings."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    accepted = sum(each.kind in kinds for each in parameters)
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        accepted = 3

    def check(history: History, facts: ModelFacts, limits: Limits) -> list[Symptom]:
        found = function(*(history, facts, limits)[:accepted])
        if found is None:
            return []
        several = [found] if isinstance(found, str | Symptom) else found
        return [Symptom(each) if isinstance(each, str) else each for each in several]

    return check
