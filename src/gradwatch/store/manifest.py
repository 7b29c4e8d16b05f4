"""A writer's manifest: which of its journals are sealed, and what they say as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradwatch.files import checked_json
from gradwatch.store import names
from gradwatch.store.journal import FORMAT, Journal

WRITER_FACTS = ("writer", "rank", "host", "pid", "process_start", "started")


def read(path: Path) -> dict[str, Any]:
    """A manifest's content, see README.md.

    Raises:
        OSError: it cannot be read.
        DamagedError: it is not what was written.
        ValueError: it is of a later format.
    """
    content = checked_json.read(path)
    if content.get("format", FORMAT) > FORMAT:
        raise ValueError(
            f"{path} is of format {content['format']}; this gradwatch reads {FORMAT}. "
            "A newer one reads it."
        )
    return content


def add(directory: Path, journal: Journal, segment: Mapping[str, Any]) -> None:
    """Enter a sealed journal into its writer's manifest, atomically.

    Only one process may do that at a time: the writer, or `repair` once it is dead.

    Args:
        directory: the run's.
        journal: the journal that the segment stands for.
        segment: its entry, as `segments.write` returns it.

    Raises:
        OSError: it cannot be written; the manifest is as it was.
        DamagedError: the manifest that is there cannot be read.
    """
    path = names.manifest(directory, journal.writer["writer"])
    try:
        content = read(path)
    except FileNotFoundError:
        content = {"segments": [], "newest": -1}
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
