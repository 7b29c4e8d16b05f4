"""`findings.jsonl`: the findings made while a run was recorded."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradwatch.diagnosis.finding import Finding
from gradwatch.diagnosis.verdict import Verdict
from gradwatch.store import file_names, findings_lines
from gradwatch.util import environment
from gradwatch.util.files import AppendFile, checked_json

NAME = file_names.FINDINGS


@dataclass(frozen=True)
class Extent:
    """What a diagnosis has seen: the first and the last step, and whether it missed nothing."""

    first_step: int
    last_step: int
    is_whole: bool


@dataclass(frozen=True)
class RecordedFindings:
    """The findings in the file of a run, each in its last state.

    `extent` is that of the only diagnosis; None if there were several, or if it has not ended, or
    if another version of gradwatch made it. `verdict` is that of the last diagnosis that has ended.
    """

    findings: list[Finding]
    extent: Extent | None = None
    verdict: Verdict | None = None


class FindingsFile:
    """Findings, a line each, appended as they are made; each line knows whether it is whole.

    When the diagnosis ends, all findings are written once more in their final state, closed or
    open; until then, the file has their first state. A run may have several diagnoses: `diagnosis`
    is the name of this one.
    """

    def __init__(self, directory: Path, diagnosis: str) -> None:
        self._directory = directory
        self._diagnosis = diagnosis
        self._file: AppendFile | None = None

    def found(self, finding: Finding) -> None:
        self._append(findings_lines.FOUND, [finding])

    def ended(self, findings: Iterable[Finding], extent: Extent, verdict: Verdict) -> None:
        """Append the final state of all findings, and the verdict."""
        self._append(findings_lines.LEFT, findings)
        more = {**vars(extent), "verdict": verdict.facts(), "version": environment.own_version()}
        self._append(findings_lines.ENDED, [None], **more)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, event: str, findings: Iterable[Finding | None], **more: Any) -> None:
        if self._file is None:
            self._file = AppendFile(self._directory / NAME)
        lines = [_line(self._diagnosis, event, finding, more) for finding in findings]
        self._file.append(b"".join(lines))


def read(directory: Path) -> RecordedFindings:
    """The findings in the file of a run; damaged lines are left out, see the run's `damage`."""
    try:
        lines, is_whole, _ = findings_lines.read(directory)
    except OSError:
        return RecordedFindings([])
    found: dict[str, list[Finding]] = {}
    left: dict[str, list[Finding]] = {}
    extents: dict[str, Extent | None] = {}
    verdict = None
    for content in lines:
        diagnosis, event = content["diagnosis"], content["event"]
        extents[diagnosis] = None
        if event == findings_lines.ENDED:
            found[diagnosis] = left.pop(diagnosis, [])
            extents[diagnosis] = _extent(content)
            verdict = Verdict.from_json(content.get("verdict"))
            continue
        try:
            finding = Finding.from_json(json.dumps(content["finding"]))
        except ValueError:  # Of a kind that this process does not know.
            is_whole = False
            continue
        if event == findings_lines.LEFT:
            left.setdefault(diagnosis, []).append(finding)
        else:
            _add(finding, found.setdefault(diagnosis, []))
    findings = [finding for several in found.values() for finding in several]
    is_sure = len(extents) == 1 and is_whole
    extent = next(iter(extents.values())) if is_sure else None
    return RecordedFindings(findings, extent, verdict)


def _add(finding: Finding, found: list[Finding]) -> None:
    """Add a finding; one that has got worse takes the place of its first state."""

    def place(each: Finding) -> tuple[str, str, int, int, str]:
        return each.group, each.rule, each.since, each.detected, each.layer

    found[:] = [
        each
        for each in found
        if place(each) != place(finding) or each.severity.rank >= finding.severity.rank
    ]
    found.append(finding)


def _extent(content: Any) -> Extent | None:
    if content.get("version") != environment.own_version():
        return None
    return Extent(content["first_step"], content["last_step"], content["is_whole"] is True)


def _line(diagnosis: str, event: str, finding: Finding | None, more: dict[str, Any]) -> bytes:
    content: dict[str, Any] = {"diagnosis": diagnosis, "event": event, **more}
    if finding is not None:
        content["finding"] = finding.facts()
    # On one line: a JSON of several is cut where a reader splits.
    return json.dumps(json.loads(checked_json.dumps(content))).encode("ascii") + b"\n"
