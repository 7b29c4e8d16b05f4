"""How a run is: one answer for every list and page, from its findings and its status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gradwatch.diagnosis import Finding, Severity, worst_first
from gradwatch.read import Run, Status
from gradwatch.util import counted
from gradwatch.view.data.plain import Answer


class Condition(StrEnum):
    """The health of a run in one word; the worst comes first."""

    ERROR = "error"
    """A finding says that the model cannot learn."""
    DAMAGED = "damaged"
    """Files of the run cannot be read."""
    STOPPED = "stopped"
    """A process ended without ending its record."""
    WARNING = "warning"
    """A finding says that training probably suffers."""
    NOT_DIAGNOSED = "not diagnosed"
    RUNNING = "running"
    """It is being recorded, and nothing is wrong so far."""
    OK = "ok"


_BAD = (Condition.ERROR, Condition.DAMAGED, Condition.STOPPED)


@dataclass(frozen=True)
class Health:
    """The health of a run: in one word, in one line, and how many errors and warnings there are.

    `headline` is empty if there is nothing to say.
    """

    condition: Condition
    headline: str = ""
    errors: int = 0
    warnings: int = 0

    @property
    def is_bad(self) -> bool:
        """Whether it is worse than a warning."""
        return self.condition in _BAD

    @property
    def colour(self) -> str:
        """The colour of its word in a terminal; empty for none."""
        if self.is_bad:
            return "red"
        colours = {Condition.WARNING: "yellow", Condition.OK: "green", Condition.RUNNING: "green"}
        return colours.get(self.condition, "")

    @property
    def words(self) -> str:
        """The word and the line."""
        return f"{self.condition}: {self.headline}" if self.headline else str(self.condition)

    def facts(self) -> Answer:
        """`Health` of `types.ts`."""
        return {**vars(self), "condition": str(self.condition)}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Health:
        """Parse the output of `facts`; other keys are ignored."""
        return cls(
            Condition(facts["condition"]), facts["headline"], facts["errors"], facts["warnings"]
        )


def health_of(run: Run, findings: Sequence[Finding] | None) -> Health:
    """The health of a run with these findings; None if it has not been diagnosed."""
    is_crashed = any(rank.status is Status.CRASHED for rank in run.rank_statuses)
    return health(run.status, is_crashed, len(run.damage), findings)


def health(
    status: Status, is_crashed: bool, damage: int, findings: Sequence[Finding] | None
) -> Health:
    """The health of a run of which one of the processes crashed, and so many places are damaged."""
    alarms = worst_first(finding for finding in findings or () if finding.is_alarm)
    severities = [finding.severity for finding in alarms]
    errors, warnings = severities.count(Severity.ERROR), severities.count(Severity.WARNING)
    headline = alarms[0].title if alarms else ""
    if errors:
        condition = Condition.ERROR
    elif damage:
        condition, headline = Condition.DAMAGED, f"{counted(damage, 'place')} cannot be read"
    elif is_crashed:
        condition = Condition.STOPPED
        headline = headline or "the training ended without closing the run"
    elif warnings:
        condition = Condition.WARNING
    elif findings is None or status is Status.EMPTY:
        condition = Condition.NOT_DIAGNOSED
    else:
        condition = Condition.RUNNING if status is Status.LIVE else Condition.OK
    return Health(condition, headline, errors, warnings)


def unreadable(error: str) -> Health:
    """The health of a run that cannot be opened."""
    return Health(Condition.DAMAGED, error)
