"""Findings: what is wrong, where, since when, and what to do."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from gradwatch.core import Kind, Site
from gradwatch.util import Json, counted

Evidence: TypeAlias = Mapping[str, float | int | str]

_SHOWN_SITES = 3


class Severity(StrEnum):
    """How bad a finding is.

    Example:

    >>> from gradwatch.diagnosis.finding import Severity
    >>> Severity.ERROR.rank > Severity.WARNING.rank > Severity.INFO.rank
    True
    """

    INFO = "info"
    """Worth knowing; no action is needed."""
    WARNING = "warning"
    """Training probably suffers."""
    ERROR = "error"
    """The model cannot learn, or cannot learn the right thing."""

    @property
    def rank(self) -> int:
        """A number for comparisons: greater is worse."""
        return list(Severity).index(self)


@dataclass(frozen=True)
class Symptom:
    """What a rule sees at one moment; the engine turns it into a finding.

    Attributes:
        title: what is wrong, in one line.
        evidence: the numbers behind it.
        sites: the tensors that show it, the most important one first.
        layer: the path of the first layer concerned; empty for the whole model.
        since: the step at which it began; the current step if None.
        until: the last step at which it was there, if it is past.
        severity: replaces the rule's severity.
        remedy: replaces the rule's remedy.
        about: distinguishes several symptoms of one rule. A symptom with the same value at a
            later step updates the same finding.
    """

    title: str
    evidence: Evidence = field(default_factory=dict)
    sites: Sequence[Site] = ()
    layer: str = ""
    since: int | None = None
    until: int | None = None
    severity: Severity | None = None
    remedy: str = ""
    about: str = ""


Symptoms: TypeAlias = Iterator[Symptom]


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a training run.

    Attributes:
        rule: the name of the rule that found it.
        severity: `"info"`, `"warning"` or `"error"`.
        title: what is wrong, in one line.
        since: the step at which it began.
        detected: the step at which it was found.
        until: the last step at which it was seen; None while it is open.
        layer: the path of the first layer concerned; empty for the whole model.
        sites: the tensors that show it, the most important one first.
        evidence: the numbers behind it.
        remedy: what to do about it.
        group: the part of the training it is about, such as `generator`; empty for all of it.
        explained_by: the rule whose finding is the cause of this one; empty if there is none.

    Example:

    >>> from gradwatch.diagnosis.finding import Finding, Severity
    >>> finding = Finding(
    ...     "dead-units", Severity.ERROR, "All units of net/hidden are dead.", since=3, detected=5,
    ...     layer="net/hidden", evidence={"dead share": 1.0}, remedy="Lower the learning rate.")
    >>> print(finding.text())
    error: All units of net/hidden are dead. (since step 3)
      dead share 1
      Lower the learning rate. [dead-units]
    >>> Finding.from_json(finding.to_json()) == finding
    True
    """

    rule: str
    severity: Severity
    title: str
    since: int
    detected: int
    until: int | None = None
    layer: str = ""
    sites: tuple[Site, ...] = ()
    evidence: Evidence = field(default_factory=dict)
    remedy: str = ""
    group: str = ""
    explained_by: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the problem persists."""
        return self.until is None

    @property
    def is_alarm(self) -> bool:
        """Whether it is a warning or an error that no other finding explains."""
        return self.severity is not Severity.INFO and not self.explained_by

    def text(self) -> str:
        """The finding as a few lines of text."""
        when = f"since step {self.since:,}"
        if self.until is not None:
            when = f"steps {self.since:,} to {self.until:,}"
        lines = [f"{self.severity}: {self.title} ({when})"]
        if self.evidence:
            numbers = ", ".join(f"{name} {_text(value)}" for name, value in self.evidence.items())
            lines.append(f"  {numbers}")
        if len(self.sites) > 1:
            more = len(self.sites) - _SHOWN_SITES
            shown = ", ".join(map(str, self.sites[:_SHOWN_SITES]))
            lines.append(f"  at {shown}{f' and {more} more' if more > 0 else ''}")
        lines.append(f"  {self.remedy} [{self.rule}]".replace("   [", "  ["))
        # Layer names are arbitrary: escape sequences in them must not reach the terminal.
        return "\n".join(x if x.isprintable() else repr(x)[1:-1] for x in lines)

    def to_json(self) -> str:
        """The finding as one line of JSON; NaN and infinities are strings."""
        return json.dumps(self.facts(), allow_nan=False)

    def facts(self) -> dict[str, Json]:
        """The finding as plain values, for JSON."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "severity": str(self.severity),
            "sites": [[str(site.kind), site.path] for site in self.sites],
            "evidence": {name: _plain(value) for name, value in self.evidence.items()},
        }

    @classmethod
    def from_json(cls, text: str) -> Finding:
        """Parse the output of `to_json`.

        Raises:
            ValueError: the text is not a finding.
        """
        try:
            facts = json.loads(text)
            return cls(
                **{name: facts[name] for name in _PLAIN},
                severity=Severity(facts["severity"]),
                sites=tuple(Site(Kind(kind), path) for kind, path in facts["sites"]),
                evidence={
                    name: _NOT_FINITE.get(value, value) for name, value in facts["evidence"].items()
                },
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"Not a finding in JSON: {error!r}. Received: {text!r}") from error


def how_to_read_more(finding: Finding) -> str:
    """The command that explains the rule of a finding, in a line."""
    return f"gradwatch rules {finding.rule}: the numbers of the rule, and how to silence it."


def counted_alarms(findings: Iterable[Finding]) -> list[str]:
    """How many errors, and how many warnings, no other finding explains; only if there are any."""
    severities = [finding.severity for finding in findings if finding.is_alarm]
    counts = {each: severities.count(each) for each in (Severity.ERROR, Severity.WARNING)}
    return [counted(count, str(severity)) for severity, count in counts.items() if count]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity, then by the step of detection; explained findings come last."""
    return sorted(findings, key=lambda f: (bool(f.explained_by), -f.severity.rank, f.detected))


_PLAIN = (
    "rule", "title", "since", "detected", "until", "layer", "remedy", "group", "explained_by",
)  # fmt: skip
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _plain(value: float | int | str) -> float | int | str:
    if isinstance(value, str):
        return value
    number = float(value)
    if math.isfinite(number):
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    return next(name for name, x in _NOT_FINITE.items() if x == number or math.isnan(number))


def _text(value: float | int | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"
