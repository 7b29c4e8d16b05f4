"""The user's choices of rules, thresholds and silences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gradwatch.core import ModelFacts
from gradwatch.diagnosis.engine import Diagnosis, Thresholds
from gradwatch.diagnosis.finding import Severity
from gradwatch.diagnosis.rule import ThresholdValues
from gradwatch.diagnosis.silence import Silence
from gradwatch.util import Json

DiagnosisSpec: TypeAlias = (
    "bool | str | Silence | Thresholds | Sequence[str | Silence | Thresholds]"
)


@dataclass(frozen=True)
class Settings:
    """Which rules to run (None for all), with which thresholds by rule, and what not to report."""

    rules: tuple[str, ...] | None = None
    thresholds: Thresholds = field(default_factory=dict)
    silences: tuple[Silence, ...] = ()

    @classmethod
    def of(cls, spec: DiagnosisSpec) -> Settings | None:
        """Parse the argument `diagnose=`; None means no diagnosis.

        It is True or False; or one of the following, or a list of them: the name of a rule, to run
        only the named ones; the result of `silence(...)`; thresholds by rule.
        """
        if isinstance(spec, bool):
            return cls() if spec else None
        parts = [spec] if isinstance(spec, str) or not isinstance(spec, Sequence) else spec
        rules: list[str] = []
        thresholds: dict[str, ThresholdValues] = {}
        silences: list[Silence] = []
        for part in parts:
            if isinstance(part, str):
                rules.append(part)
            elif isinstance(part, Silence):
                silences.append(part)
            elif isinstance(part, Mapping):
                thresholds.update(part)
            else:
                raise TypeError(
                    "diagnose takes True, False, or a list of rule names, gradwatch.silence(...) "
                    f"and {{rule: {{threshold: value}}}}. Received: {part!r}"
                )
        settings = cls(tuple(rules) or None, thresholds, tuple(silences))
        settings.start(ModelFacts(), lambda message: None)  # Raises at once for a wrong name.
        return settings

    def start(self, facts: ModelFacts, on_error: Callable[[str], None]) -> Diagnosis:
        return Diagnosis(
            facts,
            rules=self.rules,
            thresholds=self.thresholds,
            silence=self.silences,
            on_error=on_error,
        )

    def facts(self) -> dict[str, Json]:
        """The settings as they are recorded in the run."""
        return {
            "rules": None if self.rules is None else list(self.rules),
            "thresholds": {
                name: {key: _plain(value) for key, value in own.items()}
                for name, own in self.thresholds.items()
            },
            "silences": [each.facts() for each in self.silences],
        }


def _plain(value: float | Mapping[str, float]) -> float | dict[str, float]:
    if isinstance(value, Mapping):
        return {str(key): float(x) for key, x in value.items()}
    return float(value)


def as_severity(name: str, value: Severity | str | None) -> Severity | None:
    """Convert an argument to a severity; None means never."""
    if value is None:
        return None
    try:
        return Severity(value)
    except ValueError:
        known = ", ".join(repr(str(each)) for each in Severity)
        raise ValueError(f"{name} must be {known} or None. Received: {value!r}") from None
