"""The findings about one part of a training: opened, updated and closed."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gradwatch.core import Kind
from gradwatch.diagnosis.finding import Finding, Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.pace import Pace
from gradwatch.diagnosis.precedence import OF_THE_COURSE, explains, refutes
from gradwatch.diagnosis.rank_rule import RankSymptom
from gradwatch.diagnosis.rule import Rule

_ABSENT_UNTIL_CLOSED = 3
"""Checks without the symptom before a finding is closed: a symptom near a threshold flickers."""
_SAMPLES_PER_LOSS = 8
"""The loss of fewer samples says little: losses of smaller batches are averaged."""
_SLACK = 5
"""Steps by which a cause may be noticed later than its effect."""


@dataclass
class _Entry:
    finding: Finding
    last_seen: int
    absent: int = 0
    was_reported: bool = False
    severity: Severity = Severity.INFO
    """The worst that its rule has seen, before it was raised to that of what it explains."""


class GroupFindings:
    """The history of one part of a training, and its findings; an empty `group` is all of it."""

    def __init__(self, group: str = "", batch_size: int | None = None) -> None:
        self.group = group
        # The parts of a training may be adversaries, whose losses need not fall.
        self.history = History(pool=0 if group else 1)
        if batch_size is not None:
            self.set_batch_size(batch_size)
        self.pace = Pace()
        self._entries: dict[tuple[str, str], _Entry] = {}

    def set_batch_size(self, samples: int) -> None:
        """Losses of few samples are averaged."""
        for losses in (self.history.losses, self.history.data_losses):
            losses.pool_by(math.ceil(_SAMPLES_PER_LOSS / samples))

    @property
    def findings(self) -> list[Finding]:
        """In the order of their detection."""
        return [entry.finding for entry in self._entries.values()]

    @property
    def is_broken(self) -> bool:
        """Whether NaN has spread: then no other rule is meaningful."""
        entry = self._entries.get(("non-finite", ""))
        return entry is not None and entry.finding.is_open and entry.finding.severity == "error"

    def update(self, rule: Rule, symptoms: Iterable[Symptom]) -> None:
        """Open, update or close the findings of a rule by the symptoms it sees now."""
        step = self.history.step
        seen = set()
        for symptom in symptoms:
            key = rule.name, symptom.about
            seen.add(key)
            found = _finding(rule, symptom, step, self.group)
            seen_at = step if symptom.until is None else symptom.until
            entry = self._entries.get(key)
            if entry is None:
                self._entries[key] = _Entry(found, seen_at, severity=found.severity)
                continue
            if found.severity.rank > entry.severity.rank:
                entry.severity = found.severity
            old = entry.finding
            is_worse = found.severity.rank > old.severity.rank
            if is_worse:
                entry.was_reported = False
            severity = found.severity if is_worse else old.severity
            if rule.name == "non-finite" and (old.is_open or not is_worse):
                # The tensor that was NaN first stays the finding, however NaN spreads.
                entry.finding = replace(old, severity=severity, until=None)
            else:
                # A symptom that returns opens the same finding again: it is reported once.
                entry.finding = replace(
                    found,
                    since=old.since,
                    detected=old.detected,
                    severity=severity,
                    explained_by=old.explained_by,
                )
            entry.last_seen, entry.absent = seen_at, 0
        for key, entry in self._entries.items():
            if key[0] == rule.name and key not in seen and entry.finding.is_open:
                if not self._could_be_seen(entry.finding):
                    continue
                entry.absent += 1
                if entry.absent >= _ABSENT_UNTIL_CLOSED:
                    entry.finding = replace(entry.finding, until=entry.last_seen)

    def _could_be_seen(self, finding: Finding) -> bool:
        """Whether the newest step would show NaN in weights, of which a loss says nothing."""
        kinds = {site.kind for site in finding.sites} & {Kind.WEIGHT, Kind.UPDATE}
        is_of_weights = finding.rule == "non-finite" and bool(kinds)
        return not is_of_weights or any(map(self.history.is_fresh, kinds))

    def add_rank_symptom(self, rule: Rule, symptom: RankSymptom) -> None:
        """Add the result of a rule that compares ranks over the whole run."""
        since = self.history.step if symptom.since is None else symptom.since
        detected = since if symptom.detected is None else symptom.detected
        found = _finding(rule, symptom, detected, self.group)
        finding = replace(found, since=since, until=symptom.until)
        entry = _Entry(finding, detected, severity=found.severity)
        self._entries[rule.name, symptom.about] = entry

    def explain(self) -> None:
        """Mark each finding that another one causes; the cause is as severe as what it causes."""
        if len(self._entries) < 2:
            return
        for entry in self._entries.values():
            effect = entry.finding
            if effect.explained_by:
                continue
            begun = effect.detected if effect.rule in OF_THE_COURSE else effect.since
            for other in self._entries.values():
                cause = other.finding
                if (
                    explains(cause.rule, effect.rule, other.severity is Severity.ERROR)
                    # What is mild is no reason why something serious happens; NaN always is.
                    and (
                        other.severity.rank >= entry.severity.rank
                        or cause.rule.startswith("non-finite")
                    )
                    and cause.since <= begun + _SLACK
                    and (cause.until is None or cause.until >= begun)
                ):
                    # If the cause has a cause itself, name that one.
                    root = cause.explained_by or cause.rule
                    entry.finding = replace(effect, explained_by=root)
                    break
        # A cause may have been explained after its effect.
        causes = {finding.rule: finding.explained_by for finding in self.findings}
        for entry in self._entries.values():
            if root := causes.get(entry.finding.explained_by, ""):
                entry.finding = replace(entry.finding, explained_by=root)
        self._entries = {
            key: entry
            for key, entry in self._entries.items()
            if not refutes(entry.finding.explained_by, key[0])
        }
        self._raise_causes()

    def _raise_causes(self) -> None:
        """Make each cause as severe as the worst of what it hides."""
        for effect in self.findings:
            causes = [
                entry
                for (rule, _), entry in self._entries.items()
                if rule == effect.explained_by and not entry.finding.explained_by
            ]
            worst = max((entry.finding.severity.rank for entry in causes), default=0)
            if causes and worst < effect.severity.rank:
                first = min(causes, key=lambda entry: entry.finding.since)
                first.finding = replace(first.finding, severity=effect.severity)
                first.was_reported = False

    def new_findings(self) -> list[Finding]:
        """The open findings that are new, or worse than when they were last returned."""
        new = []
        for entry in self._entries.values():
            if not entry.was_reported and entry.finding.is_open and not entry.finding.explained_by:
                entry.was_reported = True
                new.append(entry.finding)
        return new


def _finding(rule: Rule, symptom: Symptom, step: int, group: str) -> Finding:
    return Finding(
        rule=rule.name,
        severity=symptom.severity or rule.severity,
        title=symptom.title,
        since=step if symptom.since is None else symptom.since,
        detected=step,
        layer=symptom.layer,
        sites=tuple(symptom.sites),
        evidence=symptom.evidence,
        remedy=symptom.remedy or rule.remedy,
        group=group,
    )
