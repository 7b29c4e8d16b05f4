"""Findings that the user does not want to hear of, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradwatch.core import select as selectors
from gradwatch.diagnosis.finding import Symptom
from gradwatch.diagnosis.limits import matches


@dataclass(frozen=True)
class Silence:
    """A rule that is not to be heard, everywhere or at some sites.

    Attributes:
        rule: its name.
        because: the reason, which is kept in the run.
        where: a path pattern or another selector; None for everywhere.
    """

    rule: str
    because: str
    where: selectors.Spec | None = None

    def __post_init__(self) -> None:
        if not self.because:
            raise ValueError(
                f"Say why {self.rule!r} is silenced: because='...' is kept in the run."
            )

    def remainder(self, symptom: Symptom) -> Symptom | None:
        """What of a symptom is still to be heard; None if nothing."""
        if self.where is None:
            return None
        selector = selectors.as_selector(self.where)
        if not symptom.sites:
            return None if symptom.layer and matches(selector, symptom.layer) else symptom
        heard = [s for s in symptom.sites if not matches(selector, s.path)]
        if not heard:
            return None
        if len(heard) == len(symptom.sites):
            return symptom
        return replace(symptom, sites=heard, layer=heard[0].layer)

    def facts(self) -> dict[str, str]:
        """As plain values, for JSON."""
        where = "everywhere" if self.where is None else str(self.where)
        return {"rule": self.rule, "where": where, "because": self.because}


def silence(rule: str, where: selectors.Spec | None = None, *, because: str) -> Silence:
    """Do not report a rule's findings, everywhere or at some sites.

    Args:
        rule: the rule's name.
        where: a path pattern, as in `gradwatch.select`; everywhere if not given.
        because: the reason, which is kept in the run.

    Example:

    >>> from gradwatch.diagnosis import silence
    >>> silence("dead-units", "conv*", because="sparse by design").facts()["where"]
    'conv*'
    """
    return Silence(rule, because, where)


def without_silenced(name: str, symptom: Symptom, silences: Sequence[Silence]) -> Symptom | None:
    """What of a rule's symptom is to be heard; None if nothing."""
    left: Symptom | None = symptom
    for each in silences:
        if left is not None and each.rule == name:
            left = each.remainder(left)
    return left
