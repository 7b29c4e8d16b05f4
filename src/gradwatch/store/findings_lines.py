"""The lines of `findings.jsonl`, each with a checksum."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gradwatch.store import checks
from gradwatch.store.file_names import FINDINGS
from gradwatch.util import Json
from gradwatch.util.files import DamagedError, checked_json, regular

LARGEST = 1 << 25
FOUND, LEFT, ENDED = "found", "left", "ended"
"""A finding is made; its state at the end of the diagnosis, in which it was made; that end."""


class FindingsLines(NamedTuple):
    """The whole lines; whether there are no others, and in words what is wrong with them.

    A last line that is cut off is no fault: its process was killed while it wrote.
    """

    lines: list[dict[str, Json]]
    is_whole: bool
    fault: str


def read(directory: Path) -> FindingsLines:
    """The findings of a run; raises `OSError` in words if the file cannot be read."""
    path = directory / FINDINGS
    try:
        *lines, rest = regular.read_bytes(path, LARGEST).split(b"\n")
    except FileNotFoundError:
        return FindingsLines([], True, "")
    found: list[dict[str, Json]] = []
    faults: list[str] = []
    for number, line in enumerate(lines, 1):
        try:
            content = checked_json.loads(line, path)
            checks.fields(content, _LINE)
            if content["event"] != ENDED:
                checks.fields(content.get("finding"), _FINDING)
            elif "version" in content:
                checks.fields(content, _EXTENT)
            found.append(content)
        except ValueError as error:
            fault = "it is damaged" if isinstance(error, DamagedError) else f"{error}"
            faults.append(f"line {number} cannot be read ({fault})")
    more = f", and {len(faults) - 1:,} more" if len(faults) > 1 else ""
    is_whole = not (faults or rest)
    return FindingsLines(found, is_whole, f"{faults[0]}{more}" if faults else "")


def _event(value: Json) -> None:
    if value not in (FOUND, LEFT, ENDED):
        raise ValueError(f"{checks.shown(value)} is no event")


def _severity(value: Json) -> None:
    if value not in ("info", "warning", "error"):
        raise ValueError(f"{checks.shown(value)} is no severity")


def _sites(value: Json) -> None:
    for each in checks.sequence(value):
        if len(checks.each(checks.text, checks.sequence(each))) != 2:
            raise ValueError(f"{checks.shown(each)} is no site")


def _evidence(value: Json) -> None:
    for each in checks.mapping(value).values():
        if not isinstance(each, str):
            checks.number(each)


_LINE: Mapping[str, Callable[[Json], Any]] = {"diagnosis": checks.text, "event": _event}
_EXTENT: Mapping[str, Callable[[Json], Any]] = {
    "first_step": checks.step,
    "last_step": checks.step,
    "is_whole": checks.flag,
}
_FINDING: Mapping[str, Callable[[Json], Any]] = {
    **dict.fromkeys(("rule", "title", "layer", "remedy", "group", "explained_by"), checks.text),
    **dict.fromkeys(("since", "detected"), checks.step),
    "until": lambda value: checks.optional(checks.step, value),
    "severity": _severity,
    "sites": _sites,
    "evidence": _evidence,
}
