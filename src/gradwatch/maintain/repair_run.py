"""Repairing a run whose processes have ended."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from gradwatch.read import Catalog, Run, Segment, Writer, count_rows, is_live, read_facts
from gradwatch.store import FORMAT, Journal, manifest, process, segments
from gradwatch.store import file_names as names
from gradwatch.util import Json
from gradwatch.util.files import atomic, checked_json

QUARANTINE = "quarantine"
_MOST_LOST = 10_000
"""So many missing journals are entered as empty; a run with more of them stays damaged."""


class LiveRunError(RuntimeError):
    """The run is being written."""


@dataclass
class Repair:
    """The result of `repair`.

    Attributes:
        sealed: the journals whose whole records are now in segments.
        rebuilt: the manifests that were written anew.
        quarantined: the damaged files, by their place in `quarantine/`.
    """

    path: Path
    sealed: list[str] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    quarantined: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        done = [
            f"{len(each)} {what}"
            for each, what in (
                (self.sealed, "journals sealed"),
                (self.rebuilt, "manifests rebuilt"),
                (self.quarantined, f"damaged files moved to {QUARANTINE}/"),
            )
            if each
        ]
        return f"{self.path}: {', '.join(done) or 'nothing to do'}"


def repair(path: str | Path, progress: Callable[[int, int, str], None] | None = None) -> Repair:
    """Repair a run: seal the journals of dead processes, and move damaged files aside.

    The whole records of these journals become segments. Damaged or missing manifests are
    rebuilt from the segments, whose names contain their checksums. Damaged files are moved
    to `quarantine/`, never deleted. The run shows the same before and after.

    Args:
        path: the run's directory.
        progress: called with how many journals are done, how many there are, and the next.

    Raises:
        LiveRunError: a process is still writing there.
        OSError: a file cannot be written or moved; call it again later.
    """
    directory = Path(path).absolute()
    done = Repair(directory)
    with Run(directory) as run:
        # By now the rows have replaced what a lost manifest would state.
        catalog = run.catalog
    for writer in catalog.writers.values():
        if is_live(writer) or (writer.journals and process.is_running(writer.facts)):
            raise LiveRunError(
                f"{directory} is being written by process {writer.facts.get('pid')} on "
                f"{writer.facts.get('host')}. Repair it when that has ended."
            )
    _, damage = read_facts(directory / names.DESCRIPTION)
    if damage is not None:
        _quarantine(damage.file, done)
    for writer in catalog.writers.values():
        if _is_out_of_order(writer, catalog):
            _rebuild(writer, catalog, done)
    journals = [(w, n) for w in catalog.writers.values() for n in sorted(w.journals)]
    for i, (writer, number) in enumerate(journals):
        if progress is not None:
            progress(i, len(journals), writer.journals[number].path.name)
        _seal(writer, number, done)
    return done


def _is_out_of_order(writer: Writer, catalog: Catalog) -> bool:
    damaged = {damage.file for damage in catalog.damage}
    return (
        names.manifest(catalog.directory, writer.name) in damaged
        or writer.without_manifest
        or bool(writer.missing)
        or any(
            (name := names.parse_segment(path.name)) is not None and name.writer == writer.name
            for path in damaged
        )
    )


def _rebuild(writer: Writer, catalog: Catalog, done: Repair) -> None:
    """Write a manifest of the whole segments, and move damaged files to the quarantine."""
    directory = catalog.directory
    path = names.manifest(directory, writer.name)
    entries: dict[int, dict[str, Json]] = {}
    lost = (n for first, last in writer.missing for n in range(first, last + 1))
    for number in sorted({*writer.sealed, *islice(lost, _MOST_LOST)} - set(writer.journals)):
        whole = writer.sealed.get(number, [])
        counts = count_rows([segment.path for segment in whole])
        tables = {s.table: _entry(s, rows) for s, rows in zip(whole, counts, strict=True)}
        entries[number] = {"number": number, "lost_rows": 0, "tables": tables}
    for damage in catalog.damage:
        name = names.parse_segment(damage.file.name)
        if name is not None and name.writer == writer.name:
            _quarantine(damage.file, done)
        if damage.file == path:
            _quarantine(path, done)
    sealed = [number for number in entries if number in writer.sealed]
    content = {
        "format": FORMAT,
        **{fact: writer.facts.get(fact) for fact in manifest.WRITER_FACTS},
        "writer": writer.name,
        "rank": writer.rank,
        "newest": max(sealed, default=-1),
        "sites": writer.sites,
        "attempts": writer.attempts,
        "groups": writer.groups,
        "ended": writer.end,
        "segments": [entries[number] for number in sorted(entries)],
    }
    checked_json.write(path, content)
    done.rebuilt.append(path.name)


def _entry(segment: Segment, rows: int | None) -> dict[str, Json]:
    size = segment.path.stat().st_size
    return {"file": segment.path.name, "bytes": size, "rows": rows, "crc32c": segment.checksum}


def _seal(writer: Writer, number: int, done: Repair) -> None:
    journal = _completed(writer, number)
    directory = journal.path.parent
    manifest.add(directory, journal, segments.write(journal, directory))
    is_whole = not (journal.damage or journal.torn)
    if not is_whole:
        _quarantine(journal.path, done)
    else:
        journal.path.unlink(missing_ok=True)
    atomic.sync_directory(directory)
    done.sealed.append(journal.path.name)


def _completed(writer: Writer, number: int) -> Journal:
    """The journal, with what its damaged records would have said, as far as others say it."""
    journal = writer.journals[number]
    known = {"format": FORMAT, **writer.facts, "writer": writer.name, "rank": writer.rank}
    return replace(
        journal,
        writer={**known, **journal.writer, "number": number},
        sites=list(writer.sites),
        attempts=list(writer.attempts),
        groups=dict(writer.groups),
    )


def _quarantine(path: Path, done: Repair) -> None:
    if not path.exists():
        return
    run = done.path
    place = run / QUARANTINE / path.relative_to(run)
    place.parent.mkdir(parents=True, exist_ok=True)
    free = place
    for n in range(2, 1000):
        if not free.exists():
            break
        free = place.with_name(f"{place.name}.{n}")
    path.rename(free)
    atomic.sync_directory(path.parent)
    done.quarantined.append(str(free.relative_to(run)))
