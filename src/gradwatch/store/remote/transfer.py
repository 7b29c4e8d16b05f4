"""Copying the sealed files of a run to a remote folder."""

from collections.abc import Iterator
from pathlib import Path

import google_crc32c

from gradwatch.store import file_names as names
from gradwatch.store import manifest
from gradwatch.store.file_names import DESCRIPTION, FINDINGS
from gradwatch.store.remote import merge_files
from gradwatch.store.remote.folder import Folder
from gradwatch.store.remote.rank_share import RankShare, is_of
from gradwatch.util import Json
from gradwatch.util.files import regular

Identity = tuple[int, int, int]


class Transfer:
    """Brings a remote folder up to date with a run's directory, again and again.

    Only sealed files are copied: segments, then the manifest that names them, so a
    reader never finds a manifest without its segments; and `run.json` and
    `findings.jsonl`. Journals stay.

    Files that are there, when the folder is listed, are not sent again; `look` lists it again, and
    files that have vanished since are sent once more. Without a `share`, all of the run is sent.
    `damaged` are local segments that are not what was sealed and were not sent.
    """

    def __init__(self, directory: Path, folder: Folder, share: RankShare | None = None) -> None:
        self.folder = folder
        self._share = share
        self._shared = (DESCRIPTION, FINDINGS) if share is None or share.is_first else ()
        self.files = self.bytes = 0
        self.damaged: set[str] = set()
        self._directory = directory
        self._sent: dict[str, Identity] = {}
        self._before: dict[str, bytes] = {}
        self._segments: set[tuple[str, int]] = set()
        for name in self._look() & {*self._shared}:
            self._before[name] = folder.read(name)

    def look(self) -> None:
        """See what is in the folder: someone may have deleted files."""
        segments = self._segments
        present = self._look()
        is_whole = segments <= self._segments
        # A manifest is sent after its segments, so with them again.
        self._sent = {
            name: identity
            for name, identity in self._sent.items()
            if name in present and (is_whole or names.parse_manifest(name) is None)
        }

    def _look(self) -> set[str]:
        # By size too: a file system that is no object store may have half of one.
        self._segments = {(e.name, e.size) for e in self.folder.listed(names.SEGMENTS)}
        return {entry.name for entry in self.folder.listed()}

    def advance(self) -> None:
        """Send all that is new; after an `OSError` the next call goes on from there."""
        for path, identity in self._changed():
            content, data = _read(path)
            for about in manifest.named_segments(content):
                self._send_segment(about)
            self._send(path.name, data)
            self._sent[path.name] = identity
        for name in self._shared:
            path = self._directory / name
            present = _identity(path)
            if present is not None and self._sent.get(name) != present:
                self._send(name, self._with_before(name, regular.read_bytes(path)))
                self._sent[name] = present

    def missing(self) -> int:
        """How many files are yet to be sent."""
        count = 0
        for path, _ in self._changed():
            content, _ = _read(path)
            wanted = [(about["file"], about["bytes"]) for about in manifest.named_segments(content)]
            count += 1 + sum(
                key not in self._segments and key[0] not in self.damaged for key in wanted
            )
        others = (self._directory / name for name in self._shared)
        return count + sum(self._sent.get(path.name) != _identity(path) for path in others)

    def _changed(self) -> Iterator[tuple[Path, Identity]]:
        for name in list(names.listed(self._directory)):
            path = self._directory / name
            identity = _identity(path)
            writer = names.parse_manifest(name)
            is_meant = writer is not None and is_of(self._share, writer)
            if is_meant and identity is not None and self._sent.get(name) != identity:
                yield path, identity

    def _send_segment(self, about: dict[str, Json]) -> None:
        name, size = about["file"], about["bytes"]
        if (name, size) in self._segments:
            return
        try:
            data = regular.read_bytes(self._directory / names.SEGMENTS / name, size)
        except (FileNotFoundError, regular.UnreadableError):
            data = b""
        if len(data) != size or f"{google_crc32c.value(data):08x}" != about["crc32c"]:
            # A reader of the remote run finds it missing, as one of this finds it damaged.
            self.damaged.add(name)
            return
        self._send(f"{names.SEGMENTS}/{name}", data)
        self._segments.add((name, size))

    def _send(self, name: str, data: bytes) -> None:
        self.folder.write(name, data)
        self.files += 1
        self.bytes += len(data)

    def _with_before(self, name: str, data: bytes) -> bytes:
        """With what was there before: the run may have been begun on another machine."""
        before = self._before.get(name)
        if before is None:
            return data
        return (merge_files.descriptions if name == DESCRIPTION else merge_files.lines)(
            before, data
        )


def _read(path: Path) -> tuple[dict[str, Json], bytes]:
    """A manifest, understood and as it is; one that is damaged is sent as it is."""
    data = regular.read_bytes(path)
    try:
        content = manifest.loads(data, path)
    except ValueError:
        content = {}
    return content, data


def _identity(path: Path) -> Identity | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
