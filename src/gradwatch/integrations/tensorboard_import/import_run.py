"""From a TensorBoard log directory to a run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gradwatch.core import Kind
from gradwatch.integrations.tensorboard_import import event_records as records
from gradwatch.integrations.tensorboard_import.events import Event, Reader
from gradwatch.integrations.tensorboard_import.protobuf import MessageError
from gradwatch.integrations.tensorboard_import.tag_numbers import Numbers
from gradwatch.record import RunDirectory
from gradwatch.store import Damage, StoreWriter
from gradwatch.util import environment

MEANING = "A number that another tool logged."
_PATTERN = "*tfevents*"


@dataclass
class Report:
    """What was taken over, and what was not.

    Attributes:
        directory: the run.
        files, records, numbers: how many were read, and how many numbers are in the run.
        tags: the paths of the series that they make.
        repeated: numbers that a later one of the same tag and step has replaced.
        other: by its name what is not numbers, and how many there were.
        damage: what could not be read.
    """

    directory: Path
    files: int = 0
    records: int = 0
    numbers: int = 0
    tags: set[str] = field(default_factory=set)
    repeated: int = 0
    other: Counter[str] = field(default_factory=Counter)
    damage: list[Damage] = field(default_factory=list)


def event_files(logs: Path) -> dict[str, list[Path]]:
    """The event files below a directory, by the part of the training that they are of.

    As in TensorBoard, each directory with event files is one; its name is its path from
    the top, and empty for the top itself. Files sort by their names, which begin with
    the time of their making.
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
) -> Report:
    """Write what event files hold into a new run.

    Scalars are kept as numbers of kind `scalar` under their tags; histograms as far as they
    can be told exactly, see `events.Reader`. The files of one part of the
    training are read in their order; when it restarted at an earlier step, what had been
    logged from there on is an earlier attempt. An interrupt leaves a whole run of the parts
    that were done.

    Args:
        logs: the log directory, or one event file.
        directory: the run; it must not exist, or be empty.
        progress: called with the number of bytes read since its last call.

    Raises:
        FileNotFoundError: there are no event files.
        FileExistsError: the run's directory is not empty.

    Example:

    >>> import pathlib, tempfile
    >>> from gradwatch.integrations.tensorboard_import.import_run import import_tensorboard
    >>> from gradwatch.sinks.event_file import EventFile, scalar, summary_event
    >>> top = pathlib.Path(tempfile.mkdtemp())
    >>> events = EventFile(top / "logs" / "train")
    >>> events.append([summary_event(step, 0.0, [scalar("loss", 1 / step)]) for step in (1, 2)])
    >>> events.close()
    >>> import_tensorboard(top / "logs", top / "run").numbers
    2
    """
    groups = event_files(logs)
    if not groups:
        raise FileNotFoundError(f"There are no event files ({_PATTERN}) in or below {logs}.")
    if directory.exists() and any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty. Name a new directory for the run.")
    run = RunDirectory(directory, on_lost=lambda: None)
    report = Report(run.path)
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
                for attempt in _attempts(group, files, report, progress):
                    for reading in attempt.readings():
                        writer.write(reading)
                        report.numbers += len(reading)
                    report.tags |= attempt.paths
                    report.repeated += attempt.repeated
            run.amend("ended", _now())
        finally:
            writer.close()
    finally:
        run.release()
    return report


def _attempts(
    group: str, files: list[Path], report: Report, progress: Callable[[int], object]
) -> Iterator[Numbers]:
    """The numbers of one part of the training, from restart to restart."""
    numbers = Numbers(group)
    newest: int | None = None
    for event in _events(files, report, progress):
        # TensorBoard's writers begin each file with a start; it is a restart only
        # where something was logged that it takes back.
        if event.is_start and newest is not None and event.step <= newest:
            yield numbers
            numbers, newest = Numbers(group), None
        for tag, value in event.numbers.items():
            numbers.add(tag, event.step, event.time, value)
            newest = event.step if newest is None else max(newest, event.step)
    yield numbers


def _events(
    files: list[Path], report: Report, progress: Callable[[int], object]
) -> Iterator[Event]:
    for path in files:
        report.files += 1
        reader = Reader()
        for record in records.read(path):
            if isinstance(record, records.Gap):
                report.damage.append(Damage(path, _words(record)))
                continue
            report.records += 1
            progress(len(record.data) + records.FRAMING)
            try:
                event = reader.event(record.data)
            except MessageError as error:
                what = f"the record that ends at byte {record.end:,} is no event ({error})"
                report.damage.append(Damage(path, what))
                continue
            report.other.update(event.other)
            yield event


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _words(gap: records.Gap) -> str:
    where = f"bytes {gap.start:,} to {gap.end:,}"
    return f"{where}: " + ("it ends within a record" if gap.at_end else "damaged, passed over")
