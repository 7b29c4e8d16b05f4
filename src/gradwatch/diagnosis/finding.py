"""What a diagnosis says: what is wrong, where, since when, and what to do."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from gradwatch.core import Kind, Site

Evidence: TypeAlias = Mapping[str, float | int | str]

_SHOWN_SITES = 3


class Severity(StrEnum):
    """How bad it is.

    Example:

    >>> from gradwatch.diagnosis.finding import Severity
    >>> Severity.ERROR.rank > Severity.WARNING.rank > Severity.INFO.rank
    True
    """

    INFO = "info"
    """Worth knowing; nothing need be done."""
    WARNING = "warning"
    """Training is likely worse for it."""
    ERROR = "error"
    """Nothing, or nothing right, can be learned like this."""

    @property
    def rank(self) -> int:
        """For comparing: the worse, the greater."""
        return list(Severity).index(self)


@dataclass(frozen=True)
class Symptom:
    """What a rule sees at one moment; the engine makes findings of it.

    Attributes:
        title: what is wrong, in one line.
        evidence: the numbers behind it, for a person to check.
        sites: which tensors show it, the first one first.
        layer: the path of the first layer that is concerned; empty for the model as a whole.
        since: the step from which on it holds; the current one if None.
        severity: instead of the rule's own.
        remedy: instead of the rule's own.
        about: what tells two symptoms of one rule apart; one that goes on keeps its finding.
    """

    title: str
    evidence: Evidence = field(default_factory=dict)
    sites: Sequence[Site] = ()
    layer: str = ""
    since: int | None = None
    severity: Severity | None = None
    remedy: str = ""
    about: str = ""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a training run.

    Attributes:
        rule: the name of the rule that found it.
        severity: `"info"`, `"warning"` or `"error"`.
        title: what is wrong, in one line.
        since: the step from which on it holds.
        detected: the step at which it was known.
        until: the last step at which it was seen, once it has gone away; else None.
        layer: the path of the first layer that is concerned; empty for the model as a whole.
        sites: which tensors show it, the first one first.
        evidence: the numbers behind it, for a person to check.
        remedy: what to do about it.
        group: the part of the training it is about, such as `generator`; empty for all of it.
        explained_by: the rule of another finding that is the cause of this one; empty if none.

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
        """Whether it still holds."""
        return self.until is None

    @property
    def is_alarm(self) -> bool:
        """Whether it is more than worth knowing, and not explained by another one."""
        return self.severity is not Severity.INFO and not self.explained_by

    def text(self) -> str:
        """In words, over a few lines."""
        when = f"since step {self.since:,}"
        if self.until is not None:
            when = f"steps {self.since:,} to {self.until:,}"
        lines = [f"{self.severity}: {self.title} ({when})"]
        if self.evidence:
            numbers = ", ".join(f"{name} {_words(value)}" for name, value in self.evidence.items())
            lines.append(f"  {numbers}")
        if len(self.sites) > 1:
            more = len(self.sites) - _SHOWN_SITES
            shown = ", ".join(map(str, self.sites[:_SHOWN_SITES]))
            lines.append(f"  at {shown}{f' and {more} more' if more > 0 else ''}")
        lines.append(f"  {self.remedy} [{self.rule}]".replace("   [", "  ["))
        # Names come from anywhere: no escape sequence of theirs reaches a terminal.
        return "\n".join(x if x.isprintable() else repr(x)[1:-1] for x in lines)

    def to_json(self) -> str:
        """As one line of JSON, in which NaN and infinities are strings."""
        return json.dumps(self.facts(), allow_nan=False)

    def facts(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "severity": str(self.severity),
            "sites": [[str(site.kind), site.path] for site in self.sites],
            "evidence": {name: _plain(value) for name, value in self.evidence.items()},
        }

    @classmethod
    def from_json(cls, text: str) -> Finding:
        """From what `to_json` made.

        Raises:
            ValueError: it is not that.
        """
        try:
            facts = json.loads(text)
            return cls(
                **{name: facts[name] for name in _PLAIN},
                severity=Severity(facts["severity"]),
                sites=tuple(Site(Kind(kind), path) for kind, path in facts["sites"]),
                evidence={name: _number(value) for name, value in facts["evidence"].items()},
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"This is no finding in JSON: {error!r}. Received: {text!r}"
            ) from error


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


def _number(value: Any) -> float | int | str:
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _words(value: float | int | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"
