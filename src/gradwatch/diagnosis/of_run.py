"""What is wrong with a recorded run: what the rules find in it, and what was found live."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from gradwatch.diagnosis import findings_file
from gradwatch.diagnosis.finding import Finding
from gradwatch.diagnosis.replay import Recorded, diagnose
from gradwatch.diagnosis.silence import Silence, silence


class RecordedInFiles(Recorded, Protocol):
    """A run that has a directory."""

    @property
    def path(self) -> Path:
        """Where it is."""


def findings_of(run: RecordedInFiles) -> list[Finding]:
    """What the rules find in what is recorded, and what was found besides while training.

    Rules that the monitor was told to silence are silent here as well. The worst come
    first; those that others explain come last.
    """
    found = diagnose(run, silence=list(_silences(run.facts))).findings
    known = {(finding.group, finding.rule) for finding in found}
    live = [f for f in findings_file.read(run.path) if (f.group, f.rule) not in known]
    return in_order([*found, *live])


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first; what others explain last."""
    return sorted(findings, key=lambda f: (bool(f.explained_by), -f.severity.rank, f.detected))


def _silences(facts: Mapping[str, Any]) -> Iterable[Silence]:
    told = facts.get("diagnose")
    for each in (told.get("silences") or ()) if isinstance(told, Mapping) else ():
        where = None if each["where"] == "everywhere" else each["where"]
        yield silence(each["rule"], where, because=each["because"])
