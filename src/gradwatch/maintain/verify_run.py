"""Checking all files of a run against their checksums."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gradwatch.read import Catalog, Writer, count_rows, is_live, read_facts
from gradwatch.sinks import DamagedBytes, read_records
from gradwatch.store import SCHEMAS, Damage, process
from gradwatch.store import file_names as names

Progress = Callable[[int, int, str], None]
"""Called with how many files are done, how many there are, and the next one's name."""

_EVENTS = "events.out.tfevents."


@dataclass
class VerifyReport:
    """The result of `verify`.

    Attributes:
        path: the run's directory.
        files: how many were checked.
        bytes: their size.
        frames: how many records of journals are whole.
        rows: how many summaries there are.
        damage: the problems.
        torn: the files that end in the midst of a record, as a killed process leaves
            them, with the number of bytes; no damage.
        leftovers: the journals of dead processes, which only `repair` will seal.
    """

    path: Path
    files: int = 0
    bytes: int = 0
    frames: int = 0
    rows: int = 0
    damage: list[Damage] = field(default_factory=list)
    torn: dict[Path, int] = field(default_factory=dict)
    leftovers: list[Path] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether nothing that was written is damaged or missing."""
        return not self.damage

    def __str__(self) -> str:
        state = "whole" if self.is_whole else f"{len(self.damage)} damaged"
        counts = f"{self.files} files, {self.frames:,} records, {self.rows:,} rows"
        lines = [f"{self.path}: {state} ({counts})"]
        lines += [f"  damaged: {each}" for each in self.damage]
        lines += [
            f"  ends in the midst of a record: {p.name} ({n} bytes)" for p, n in self.torn.items()
        ]
        return "\n".join(lines)


def verify(path: str | Path, progress: Progress | None = None) -> VerifyReport:
    """Read every file of a run and compare it with its checksum.

    Args:
        path: the run's directory; it may be in use.
        progress: called for each file.

    Example:

    >>> import pathlib, tempfile
    >>> import gradwatch, numpy as np
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> with gradwatch.Monitor(directory, sinks=[gradwatch.Store()]) as monitor:
    ...     monitor.record(gradients={"a": np.ones(3)})
    >>> report = gradwatch.maintain.verify(directory)
    >>> report.is_whole, report.rows
    (True, 1)
    """
    directory = Path(path).absolute()
    report = VerifyReport(directory)
    tell = progress or (lambda done, of, name: None)
    events = [directory / name for name in names.listed(directory) if name.startswith(_EVENTS)]
    _, damage = read_facts(directory / names.DESCRIPTION)
    report.damage += [damage] if damage else []
    catalog = Catalog(directory)
    catalog.refresh()
    report.damage += catalog.damage
    segments = [segment for table in SCHEMAS for segment in catalog.segments(table)]
    journals = list(catalog.journals())
    own = [
        directory / n
        for n in names.listed(directory)
        if names.parse_manifest(n) or n == names.DESCRIPTION
    ]
    for file in [*own, *events, *(s.path for s in segments), *(j.path for j in journals)]:
        report.files += 1
        report.bytes += file.stat().st_size if file.exists() else 0
    total = len(segments) + len(journals) + len(events)
    counts = count_rows([segment.path for segment in segments])
    for done, (segment, found) in enumerate(zip(segments, counts, strict=True)):
        tell(done, total, segment.path.name)
        if found is None or segment.rows not in (None, found):
            what = f"it has {found} rows, not {segment.rows}"
            report.damage.append(Damage(segment.path, what))
        elif segment.table == "summaries":
            report.rows += found
    for done, journal in enumerate(journals, len(segments)):
        tell(done, total, journal.path.name)
        report.frames += journal.frame_count
        report.rows += sum(block.rows for block in journal.readings)
        if journal.torn:
            report.torn[journal.path] = journal.torn
    for writer in catalog.writers.values():
        if writer.newest >= 0 and not _may_go_on(writer):
            report.leftovers += [journal.path for journal in writer.journals.values()]
    for done, file in enumerate(events, len(segments) + len(journals)):
        tell(done, total, file.name)
        _check_events(file, report)
    tell(total, total, "")
    return report


def _may_go_on(writer: Writer) -> bool:
    return process.is_running(writer.facts) is True or is_live(writer)


def _check_events(path: Path, report: VerifyReport) -> None:
    """Check the records of one of TensorBoard's event files."""
    try:
        for found in read_records(path):
            if not isinstance(found, DamagedBytes):
                report.frames += 1
            elif found.at_end:
                report.torn[path] = found.end - found.start
            else:
                report.damage.append(Damage(path, str(found)))
    except OSError as error:
        report.damage.append(Damage(path, f"it cannot be read ({error.strerror or error})"))
