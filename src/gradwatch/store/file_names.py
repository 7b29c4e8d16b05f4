"""The names of a run store's files: who wrote one, its number, what it holds."""

import contextlib
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SEGMENTS = "segments"
DESCRIPTION, FINDINGS = "run.json", "findings.jsonl"
_DAY, _MOMENT = 8, 18
"""How many characters of a writer's name are the day, and the moment."""
_LAST_MOMENT = 10 ** (_MOMENT - 1) - 1
_WRITER = r"(?P<writer>\d{8}T\d{9}-r\d{4,9}-[0-9a-f]{8})"
_JOURNAL = re.compile(rf"journal-{_WRITER}-(?P<number>\d{{6,12}})\.gwj")
_MANIFEST = re.compile(rf"manifest-{_WRITER}\.json")
_SEGMENT = re.compile(
    rf"{_WRITER}-(?P<number>\d{{6,12}})\.(?P<table>[a-z]+)\.(?P<checksum>[0-9a-f]{{8}})\.parquet"
)


@dataclass(frozen=True, order=True)
class JournalName:
    """What the name of a journal says."""

    writer: str
    number: int


@dataclass(frozen=True, order=True)
class SegmentName:
    """What the name of a segment says."""

    writer: str
    number: int
    table: str
    checksum: str


def new_writer(rank: int, now: float | None = None, after: Iterable[str] = ()) -> str:
    """A name that no other writer has; names sort by the time of their making.

    It also sorts behind the names `after`, whatever the clock says: the next moment after theirs.
    """
    now = time.time() if now is None else now
    moment = time.strftime("%Y%m%d%H%M%S", time.gmtime(now)) + f"{int(now * 1000) % 1000:03d}"
    newest = max((int(name[:_DAY] + name[_DAY + 1 : _MOMENT]) for name in after), default=-1)
    digits = f"{min(max(int(moment), newest + 1), _LAST_MOMENT):0{_MOMENT - 1}d}"
    # Not `random`: the user's seed must neither be used up nor make two names alike.
    return f"{digits[:_DAY]}T{digits[_DAY:]}-r{rank:04d}-{secrets.token_hex(4)}"


def writers_in(directory: Path, rank: int) -> set[str]:
    """The writers of a rank of which there are files in a run's directory."""
    found: set[str | None] = set()
    for place in (directory, directory / SEGMENTS):
        with contextlib.suppress(OSError):  # It cannot be listed: nothing is known of it.
            for name in listed(place):
                about = parse_journal(name) or parse_segment(name)
                found.add(about.writer if about is not None else parse_manifest(name))
    return {writer for writer in found if writer is not None and is_of_rank(writer, rank)}


def is_of_rank(writer: str, rank: int) -> bool:
    return f"-r{rank:04d}-" in writer


def journal(directory: Path, writer: str, number: int) -> Path:
    return directory / f"journal-{writer}-{number:06d}.gwj"


def manifest(directory: Path, writer: str) -> Path:
    return directory / f"manifest-{writer}.json"


def segment(writer: str, number: int, table: str, checksum: str) -> str:
    """The name, in the folder of segments, of what was sealed."""
    return f"{writer}-{number:06d}.{table}.{checksum}.parquet"


def parse_journal(name: str) -> JournalName | None:
    found = _JOURNAL.fullmatch(name)
    return found and JournalName(found["writer"], int(found["number"]))


def parse_manifest(name: str) -> str | None:
    """The writer whose manifest has this name; None if it is not a manifest's."""
    found = _MANIFEST.fullmatch(name)
    return found and found["writer"]


def parse_segment(name: str) -> SegmentName | None:
    found = _SEGMENT.fullmatch(name)
    return found and SegmentName(
        found["writer"], int(found["number"]), found["table"], found["checksum"]
    )


def listed(directory: Path) -> Iterator[str]:
    """The names of the files in a directory, sorted; none if there is no such directory."""
    try:
        yield from sorted(path.name for path in directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
