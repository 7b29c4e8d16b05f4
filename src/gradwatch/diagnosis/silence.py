"""Findings that the user does not want reported, and why."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gradwatch.core import select as selectors
from gradwatch.diagnosis.finding import Symptom
from gradwatch.diagnosis.rule import matches


@dataclass(frozen=True)
class Silence:
    """Do not report a rule's findings, everywhere or at some sites.

    Args:
        rule: the rule's name.
        where: a path pattern, as in `gradwatch.select`; everywhere by default.
        because: the reason, which is recorded in the run.

    Raises:
        ValueError: the reason is empty.
    """

    rule: str
    where: selectors.Spec | None = None
    because: str = field(kw_only=True)

    def __post_init__(self) -> None:
        if not self.because:
            raise ValueError(
                f"Say why {self.rule!r} is silenced: because='...' is recorded in the run."
            )

    def apply(self, symptom: Symptom) -> Symptom | None:
        """The symptom without the silenced sites; None if nothing is left."""
        if self.where is None:
            return None
        selector = selectors.as_selector(self.where)
        if not symptom.sites:
            return None if symptom.layer and matches(selector, symptom.layer) else symptom
        left = [s for s in symptom.sites if not matches(selector, s.path)]
        if not left:
            return None
        if len(left) == len(symptom.sites):
            return symptom
        return replace(symptom, sites=left, layer=left[0].layer)

    def facts(self) -> dict[str, str]:
        """The silence as plain values, for JSON."""
        where = "everywhere" if self.where is None else str(self.where)
        return {"rule": self.rule, "where": where, "because": self.because}


silence = Silence
"""`Silence` under the name that users call."""


def apply_silences(
    rule: str, symptoms: Iterable[Symptom], silences: Sequence[Silence]
) -> list[Symptom]:
    kept: list[Symptom] = []
    for symptom in symptoms:
        left: Symptom | None = symptom
        for each in silences:
            if left is not None and each.rule == rule:
                left = each.apply(left)
        if left is not None:
            kept.append(left)
    return kept
