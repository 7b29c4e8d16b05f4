"""Writes TensorBoard event files into a run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gradwatch.core import Kind
from gradwatch.integrations.tensorboard_import.logged_numbers import LoggedNumbers
from gradwatch.record import RunDirectory
from gradwatch.sinks import DamagedBytes, read_records
from gradwatch.store import Damage, StoreWriter
from gradwatch.util import environment

if TYPE_CHECKING:
    from gradwatch.integrations.tensorboard_import.events import Event

MEANING = "A number that another tool logged."
_PATTERN = "*tfevents*"
_NAMED = 20
"""So many damaged places of a file are named."""


@dataclass
class ImportReport:
    """What was imported and what was not.

    `files` and `records` were read; `numbers` are in the run, with the paths `tags`. `replaced`
    counts numbers left out because the same tag was logged again at the same step, and `other` the
    skipped values of each other type.
    """

    directory: Path
    files: int = 0
    records: int = 0
    numbers: int = 0
    tags: set[str] = field(default_factory=set)
    replaced: int = 0
    other: Counter[str] = field(default_factory=Counter)
    damage: list[Damage] = field(default_factory=list)
    _damaged: Counter[Path] = field(default_factory=Counter)

    def add_damage(self, path: Path, what: str) -> None:
        """Enter what was left out; of a file that is full of damage, the first and how much."""
        self._damaged[path] += 1
        more = self._damaged[path] - _NAMED
        if more > 1:
            self.damage.pop()
        self.damage.append(Damage(path, what if more < 1 else f"{more:,} more places like these"))


def event_files(logs: Path) -> dict[str, list[Path]]:
    """The event files below a directory, by the part of the training that logged them.

    As in TensorBoard, each directory with event files is one part, named by its path below
    `logs`. Files sort by name, which begins with the time of creation.
    """
    if logs.is_file():
        return {"": [logs]}
    found: dict[str, list[Path]] = {}
    for path in sorted(logs.rglob(_PATTERN)):
        if path.is_file():
            name = path.parent.relative_to(logs).as_posix()
            found.setdefault("" if name == "." else name, []).append(path)
    return found


def import_tensorboard(
    logs: Path, directory: Path, progress: Callable[[int], object] = lambda done: None
) -> ImportReport:
    """Write the numbers in event files into a new run.

    Scalars are kept as numbers of kind `scalar` under their tags; of histograms, the exact
    statistics (see `EventParser`). The files of one part of the training are read in order. Where
    training restarted at an earlier step, the values logged from there on become an earlier
    attempt. After an interrupt, the run holds the parts that were complete.

    `logs` may be one event file. `progress` is called with the number of bytes read since its last
    call. Raises FileNotFoundError without event files, FileExistsError if the directory is not
    empty, and ImportError without TensorBoard.
    """
    groups = event_files(logs)
    if not groups:
        raise FileNotFoundError(f"There are no event files ({_PATTERN}) in or below {logs}.")
    if directory.exists() and any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty. Name a new directory for the run.")
    _check_tensorboard()
    run = RunDirectory(directory, on_lost=lambda: None)
    report = ImportReport(run.path)
    try:
        run.describe(
            {
                "started": _now(),
                "imported": {"tool": "tensorboard", "from": str(logs.absolute())},
                "meaning": {str(Kind.SCALAR): MEANING},
                "environment": environment.describe(),
            }
        )
        writer = StoreWriter(run.path, first_step=0)
        try:
            for group, files in groups.items():
                for attempt in _attempts(group, _events(files, report, progress)):
                    for reading in attempt.readings():
                        writer.write(reading)
                        report.numbers += len(reading)
                    report.tags.update(attempt.paths)
                    report.replaced += attempt.replaced
            run.amend("ended", _now())
        finally:
            writer.close()
    finally:
        run.release()
    return report


def _check_tensorboard() -> None:
    try:
        import tensorboard  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Reading event files needs TensorBoard. "
            "Install it with: pip install 'gradwatch[tensorboard]'"
        ) from error


def _attempts(group: str, events: Iterator[Event]) -> Iterator[LoggedNumbers]:
    """The numbers of one part of the training, from restart to restart."""
    numbers = LoggedNumbers(group)
    newest: int | None = None
    for event in events:
        # Writers begin each file with a start event. It is a restart only if it voids
        # something that was logged.
        if event.is_start and newest is not None and event.step <= newest:
            yield numbers
            numbers, newest = LoggedNumbers(group), None
        for tag, value in event.numbers.items():
            numbers.add(tag, event.step, event.time, value)
            newest = event.step if newest is None else max(newest, event.step)
    yield numbers


def _events(
    files: list[Path], report: ImportReport, progress: Callable[[int], object]
) -> Iterator[Event]:
    from gradwatch.integrations.tensorboard_import.events import EventError, EventParser

    for path in files:
        report.files += 1
        parser = EventParser()
        for record in read_records(path):
            if isinstance(record, DamagedBytes):
                report.add_damage(path, str(record))
                continue
            report.records += 1
            progress(record.size)
            try:
                event = parser.parse(record.data)
            except EventError as error:
                problem = f"the record that ends at byte {record.end:,} is no event ({error})"
                report.add_damage(path, problem)
                continue
            for problem in event.problems:
                what = f"the record that ends at byte {record.end:,} has {problem}, left out"
                report.add_damage(path, what)
            report.other.update(event.other)
            yield event


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
