"""A writer's manifest: its sealed segments, sites and attempts."""

from collections.abc import Mapping
from pathlib import Path

from gradwatch.store import file_names as names
from gradwatch.store.journal import FORMAT, Journal
from gradwatch.util import Json
from gradwatch.util.files import checked_json

WRITER_FACTS = ("writer", "rank", "host", "pid", "process_start", "started")


def read(path: Path, known: checked_json.Known | None = None) -> dict[str, Json]:
    """A manifest's content, see README.md; `known` has sites that other writers have too.

    Raises `DamagedError` if it is not what was written, `ValueError` if it is of a later format.
    """
    content = checked_json.read(path, known)
    if content.get("format", FORMAT) > FORMAT:
        raise ValueError(
            f"{path} is of format {content['format']}; this gradwatch reads {FORMAT}. "
            "A newer one reads it."
        )
    return content


def named_segments(content: Mapping[str, Json], table: str | None = None) -> list[dict[str, Json]]:
    """The segments that a manifest names, of one table or of all: `file`, `bytes`, `crc32c`.

    A file must have the name of a segment. So nothing outside of the run is read or written.
    """
    entries = [
        about
        for entry in content.get("segments", ())
        for name, about in entry["tables"].items()
        if table in (None, name)
    ]
    return [e for e in entries if names.parse_segment(str(e["file"])) is not None]


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
