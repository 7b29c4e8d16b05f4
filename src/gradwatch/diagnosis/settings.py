"""What the user has said about how to diagnose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gradwatch.core import ModelFacts
from gradwatch.diagnosis.engine import Diagnosis
from gradwatch.diagnosis.finding import Severity
from gradwatch.diagnosis.silence import Silence

Spec: TypeAlias = (
    "bool | str | Silence | Mapping[str, Any] | Sequence[str | Silence | Mapping[str, Any]]"
)


@dataclass(frozen=True)
class Settings:
    """Which rules to ask, with which thresholds, and what not to report.

    Attributes:
        rules: their names; None for all.
        thresholds: by rule, see `Diagnosis`.
        silences: what not to report.
    """

    rules: tuple[str, ...] | None = None
    thresholds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    silences: tuple[Silence, ...] = ()

    @classmethod
    def of(cls, spec: Spec) -> Settings | None:
        """What `diagnose=` means; None for no diagnosis.

        Args:
            spec: True or False; or a list, or one, of: the names of rules, to ask only
                those; what `silence(...)` returned; thresholds by rule.

        Raises:
            TypeError, ValueError: it is none of these, or there is no such rule or threshold.

        Example:

        >>> from gradwatch.diagnosis import silence
        >>> from gradwatch.diagnosis.settings import Settings
        >>> Settings.of(False) is None, Settings.of(True).rules
        (True, None)
        >>> settings = Settings.of([silence("dead-units", "conv*", because="sparse by design"),
        ...                         {"imbalance": {"factor": 1e4}}])
        >>> settings.thresholds
        {'imbalance': {'factor': 10000.0}}
        """
        if isinstance(spec, bool):
            return cls() if spec else None
        parts = [spec] if isinstance(spec, str | Silence | Mapping) else spec
        rules: list[str] = []
        thresholds: dict[str, Mapping[str, Any]] = {}
        silences: list[Silence] = []
        for part in parts if isinstance(parts, Sequence) else [parts]:
            if isinstance(part, str):
                rules.append(part)
            elif isinstance(part, Silence):
                silences.append(part)
            elif isinstance(part, Mapping):
                thresholds.update(part)
            else:
                raise TypeError(
                    "diagnose takes True, False, or a list of names of rules, gradwatch.silence"
                    "(...) and {rule: {threshold: value}}. "
                    f"Received: {part!r}"
                )
        settings = cls(tuple(rules) or None, thresholds, tuple(silences))
        settings.start(ModelFacts(), lambda text: None)  # A wrong name is heard of now.
        return settings

    def start(self, facts: ModelFacts, say: Callable[[str], None]) -> Diagnosis:
        """A diagnosis by these settings."""
        return Diagnosis(
            facts, rules=self.rules, thresholds=self.thresholds, silence=self.silences, say=say
        )

    def facts(self) -> dict[str, Any]:
        """What is kept of them in the run."""
        return {
            "rules": None if self.rules is None else list(self.rules),
            "thresholds": {
                name: {key: _plain(value) for key, value in own.items()}
                for name, own in self.thresholds.items()
            },
            "silences": [each.facts() for each in self.silences],
        }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): float(x) for key, x in value.items()}
    return float(value)


def as_severity(name: str, value: Severity | str | None) -> Severity | None:
    """A severity, or None for never.

    Raises:
        ValueError: it is none.

    Example:

    >>> from gradwatch.diagnosis.settings import as_severity
    >>> str(as_severity("stop_on", "error"))
    'error'
    """
    if value is None:
        return None
    try:
        return Severity(value)
    except ValueError:
        known = ", ".join(repr(str(each)) for each in Severity)
        raise ValueError(f"{name} is one of {known} or None. Received: {value!r}") from None
