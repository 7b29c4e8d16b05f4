"""The findings about one part of a training: opened, kept up to date, and closed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gradwatch.diagnosis.across_ranks.rank_rule import RankSymptom
from gradwatch.diagnosis.finding import Finding, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.precedence import explains
from gradwatch.diagnosis.rule import Rule

_ABSENT_UNTIL_CLOSED = 3
"""Asked so often in vain, a rule's finding is closed: a symptom at its threshold comes and goes."""
_SAMPLES_A_LOSS = 8
"""The loss of fewer samples says little: of smaller batches, several are taken as one."""
_SLACK = 5
"""Steps by which a cause may be noticed to begin later than what it causes."""


@dataclass
class _Entry:
    finding: Finding
    last_seen: int
    absent: int = 0
    was_reported: bool = False


class GroupFindings:
    """A history, and what has been found in it.

    Args:
        group: the part of the training; empty for all of it.
        batch_size: how many samples a step is given, if that is known.
    """

    def __init__(self, group: str = "", batch_size: int | None = None) -> None:
        self.group = group
        pool = math.ceil(_SAMPLES_A_LOSS / (batch_size or _SAMPLES_A_LOSS))
        # The parts of a training may be adversaries, whose losses need not fall.
        self.history = History(pool=0 if group else pool)
        self._entries: dict[tuple[str, str], _Entry] = {}

    @property
    def findings(self) -> list[Finding]:
        """All of them, in the order in which they were detected."""
        return [entry.finding for entry in self._entries.values()]

    @property
    def is_broken(self) -> bool:
        """Whether NaN has spread: then nothing else that is seen means anything."""
        return any(
            key[0] == "non-finite" and entry.finding.is_open and entry.finding.severity == "error"
            for key, entry in self._entries.items()
        )

    def take(self, rule: Rule, symptoms: Iterable[Symptom]) -> None:
        """Take what a rule sees now."""
        step = self.history.step
        seen = set()
        for symptom in symptoms:
            key = rule.name, symptom.about
            seen.add(key)
            found = _finding(rule, symptom, step, self.group)
            entry = self._entries.get(key)
            if entry is None:
                self._entries[key] = _Entry(found, step)
                continue
            old = entry.finding
            worse = found.severity.rank > old.severity.rank
            if worse:
                entry.was_reported = False
            if rule.name != "non-finite" or not old.is_open:
                # What was NaN first stays so, however it spreads. What comes back is the
                # same finding, open again: one that comes and goes is not said each time.
                entry.finding = replace(
                    found,
                    since=old.since,
                    detected=old.detected,
                    severity=found.severity if worse else old.severity,
                    explained_by=old.explained_by,
                )
            elif worse:
                entry.finding = replace(old, severity=found.severity)
            entry.last_seen, entry.absent = step, 0
        for key, entry in self._entries.items():
            if key[0] == rule.name and key not in seen and entry.finding.is_open:
                entry.absent += 1
                if entry.absent >= _ABSENT_UNTIL_CLOSED:
                    entry.finding = replace(entry.finding, until=entry.last_seen)

    def note(self, rule: Rule, symptom: RankSymptom) -> None:
        """Take what a rule that compares ranks has seen in the whole of the run."""
        since = self.history.step if symptom.since is None else symptom.since
        detected = since if symptom.detected is None else symptom.detected
        found = _finding(rule, symptom, detected, self.group)
        entry = _Entry(replace(found, since=since, until=symptom.until), detected)
        self._entries[rule.name, symptom.about] = entry

    def explain(self) -> None:
        """Note of each finding whether another one is its cause."""
        if len(self._entries) < 2:
            return
        for entry in self._entries.values():
            finding = entry.finding
            if finding.explained_by:
                continue
            for other in self._entries.values():
                cause = other.finding
                if (
                    explains(cause.rule, finding.rule)
                    and cause.since <= finding.since + _SLACK
                    and (cause.until is None or cause.until >= finding.since)
                ):
                    # The root, where the cause has a cause itself.
                    root = cause.explained_by or cause.rule
                    entry.finding = replace(finding, explained_by=root)
                    break
        self._find_roots()

    def _find_roots(self) -> None:
        """What is explained by a finding that has since been explained itself has its cause."""
        causes = {e.finding.rule: e.finding.explained_by for e in self._entries.values()}
        for entry in self._entries.values():
            root = causes.get(entry.finding.explained_by)
            if root:
                entry.finding = replace(entry.finding, explained_by=root)

    def new_findings(self) -> list[Finding]:
        """The open findings that have not been said, or have become worse since."""
        news = []
        for entry in self._entries.values():
            if not entry.was_reported and entry.finding.is_open and not entry.finding.explained_by:
                entry.was_reported = True
                news.append(entry.finding)
        return news


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
