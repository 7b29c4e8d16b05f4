"""A writer's manifest: its sealed segments, sites and attempts."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gradwatch.store import checks
from gradwatch.store import file_names as names
from gradwatch.store.journal import FORMAT, Journal
from gradwatch.util import Json
from gradwatch.util.files import DamagedError, checked_json, regular

WRITER_FACTS = ("writer", "rank", "host", "pid", "process_start", "started")


def read(path: Path, known: checked_json.Known | None = None) -> dict[str, Json]:
    """A manifest's content, see README.md; `known` has sites that other writers have too.

    Raises `DamagedError` if it is not what was written, `ValueError` if it is of a later format,
    and `OSError` in words if it is no file.
    """
    return loads(regular.read_bytes(path), path, known)


def loads(data: bytes, path: Path, known: checked_json.Known | None = None) -> dict[str, Json]:
    """The same from the bytes of the file, whose writer is in the path's name.

    That each of the sites is one is not checked: writers share them, see `checks.site`.
    """
    content = checked_json.loads(data, path, known)
    try:
        _check(content, names.parse_manifest(path.name))
    except LaterFormatError:
        raise
    except ValueError as error:
        raise DamagedError(f"{path} is damaged: {error}.") from None
    return content


class LaterFormatError(ValueError):
    """A newer gradwatch has written it."""


def _check(content: dict[str, Json], writer: str | None) -> None:
    """Raise `ValueError` unless all values are of the types that a writer writes."""
    format = checks.whole(content.get("format", FORMAT))
    if format > FORMAT:
        raise LaterFormatError(
            f"It is of format {format}; this gradwatch reads {FORMAT}. A newer one reads it."
        )
    if writer is not None:
        checks.writer(content, writer)
    checks.fields(content, _CONTENT)
    for entry in content["segments"]:
        checks.fields(entry, _SEALED)
        for table, about in entry["tables"].items():
            checks.fields(about, _SEGMENT)
            name = names.parse_segment(about["file"])
            # A name and no path: nothing outside of the run is ever read or written.
            if name is None:
                raise ValueError(f"{checks.shown(about['file'])} is no segment's name")
            wanted = (writer or name.writer, entry["number"], table)
            if (name.writer, name.number, name.table) != wanted:
                raise ValueError(f"{about['file']} is not number {entry['number']} of {table}")
    numbers = {entry["number"] for entry in content["segments"]}
    if len(numbers) < len(content["segments"]) or content["newest"] not in {*numbers, -1}:
        raise ValueError(f"newest: {content['newest']}, which is none of its segments")


_CONTENT: Mapping[str, Callable[[Json], Any]] = {
    "newest": lambda value: checks.whole(value, -1),
    "sites": checks.sequence,
    "attempts": lambda value: checks.each(checks.attempt, checks.sequence(value)),
    "groups": lambda value: checks.optional(checks.groups, value),
    "ended": lambda value: checks.optional(checks.end, value),
    "segments": checks.sequence,
}
_SEALED: Mapping[str, Callable[[Json], Any]] = {
    "number": checks.whole,
    "lost_rows": lambda value: checks.optional(checks.whole, value),
    "tables": checks.mapping,
}
_SEGMENT: Mapping[str, Callable[[Json], Any]] = {
    "file": checks.text,
    "bytes": checks.whole,
    "rows": lambda value: checks.optional(checks.whole, value),
    "crc32c": checks.text,
}


def named_segments(content: Mapping[str, Json], table: str | None = None) -> list[dict[str, Json]]:
    """The segments that a manifest names, of one table or of all: `file`, `bytes`, `crc32c`."""
    return [
        about
        for entry in content.get("segments", ())
        for name, about in entry["tables"].items()
        if table in (None, name)
    ]


def so_far(directory: Path, journal: Journal) -> dict[str, Json]:
    """The manifest of a journal's writer, or an empty one; raises `DamagedError`."""
    try:
        return read(names.manifest(directory, journal.writer["writer"]))
    except FileNotFoundError:
        return {"segments": [], "newest": -1}


def add(
    directory: Path,
    journal: Journal,
    segment: Mapping[str, Json],
    before: Mapping[str, Json] | None = None,
) -> None:
    """Enter a sealed journal into its writer's manifest, atomically.

    Only one process may do that at a time: the writer, or `repair` once it is dead. `segment` is
    what `segments.write` returned. `before` is the manifest as it is, if it has been read: with
    many sites that takes a while. Raises `DamagedError` if the manifest that is there cannot be
    read.
    """
    path = names.manifest(directory, journal.writer["writer"])
    content = dict(so_far(directory, journal) if before is None else before)
    others = [entry for entry in content["segments"] if entry["number"] != segment["number"]]
    content["segments"] = sorted([*others, dict(segment)], key=lambda entry: int(entry["number"]))
    if segment["number"] >= content["newest"]:
        # A later journal knows all that an earlier one did.
        content |= {
            "format": FORMAT,
            **{name: journal.writer.get(name) for name in WRITER_FACTS},
            "newest": segment["number"],
            "sites": journal.sites,
            "attempts": journal.attempts,
            "groups": journal.groups,
            "ended": journal.end,
        }
    checked_json.write(path, content)
