"""`findings.jsonl`: the findings made while a run was recorded."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gradwatch.diagnosis.finding import Finding
from gradwatch.util.files import AppendFile, checked_json

NAME = "findings.jsonl"
_FOUND, _LEFT, _ENDED = "found", "left", "ended"


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
        self._append(_FOUND, [finding])

    def ended(self, findings: Iterable[Finding]) -> None:
        """Append the final state of all findings, if there are any."""
        left = list(findings)
        if left or self._file is not None:
            self._append(_LEFT, left)
            self._append(_ENDED, [None])

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, event: str, findings: Iterable[Finding | None]) -> None:
        if self._file is None:
            self._file = AppendFile(self._directory / NAME)
        lines = [_line(self._diagnosis, event, finding) for finding in findings]
        self._file.append(b"".join(lines))


def read(directory: Path) -> list[Finding]:
    """The findings in the file of a run, each in its last state; damaged lines are left out."""
    try:
        lines = (directory / NAME).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found: dict[str, list[Finding]] = {}
    left: dict[str, list[Finding]] = {}
    for line in lines:
        try:
            content = checked_json.loads(line, directory / NAME)
            diagnosis, event = str(content["diagnosis"]), content["event"]
            if event == _ENDED:
                found[diagnosis] = left.pop(diagnosis, [])
            else:
                finding = Finding.from_json(json.dumps(content["finding"]))
                into = left if event == _LEFT else found
                into.setdefault(diagnosis, []).append(finding)
        except (ValueError, KeyError, TypeError):
            continue
    return [finding for several in found.values() for finding in several]


def _line(diagnosis: str, event: str, finding: Finding | None) -> bytes:
    content: dict[str, Any] = {"diagnosis": diagnosis, "event": event}
    if finding is not None:
        content["finding"] = finding.facts()
    # On one line: a JSON of several is cut where a reader splits.
    return json.dumps(json.loads(checked_json.dumps(content))).encode("ascii") + b"\n"
