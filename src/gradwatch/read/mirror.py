"""A local copy of a run at a URL."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import google_crc32c

from gradwatch.store import SegmentName, manifest
from gradwatch.store import file_names as names
from gradwatch.store.remote import Folder, is_claim
from gradwatch.util.files import atomic

DOWNLOADS = 8


class Mirror:
    """Downloads a remote run into a directory, and at each `refresh` the new files.

    A segment has its checksum in its name and never changes, so it is downloaded once, and kept
    only if it is what the name says. One that is missing or damaged is not there either; the reader
    then reports it. Only mirrors of the same run write to `directory`. `claims` are the names of
    the remote files by which processes claim to be uploading, and `downloads` counts files.
    """

    def __init__(self, folder: Folder, directory: Path) -> None:
        self.folder, self.directory = folder, directory
        self.claims: list[str] = []
        self.downloads = 0
        self._marks: dict[str, tuple[int, str]] = {}
        self._manifests: dict[str, list[str]] = {}
        self._checked: set[str] = set()

    def refresh(self) -> None:
        """Make the copy what the remote run is now; raises FileNotFoundError if there is no run."""
        begun = time.time()
        entries = {entry.name: entry for entry in self.folder.listed()}
        self.claims = [name for name in entries if is_claim(name)]
        (self.directory / names.SEGMENTS).mkdir(parents=True, exist_ok=True)
        for name, entry in entries.items():
            is_manifest = names.parse_manifest(name) is not None
            if is_manifest or name in (names.DESCRIPTION, names.FINDINGS):
                mark = (entry.size, entry.mark)
                path = self.directory / name
                if not entry.mark or self._marks.get(name) != mark or not path.exists():
                    self._copy(name, is_manifest)
                    self._marks[name] = mark
                elif is_manifest:
                    # One that was damaged on the way may be whole by now.
                    self._download(self._manifests[name])
        self._forget({names.parse_manifest(name) for name in entries}, begun)

    def _forget(self, writers: set[str | None], begun: float) -> None:
        """Delete the files of another run that was at this URL before."""
        segments = self.directory / names.SEGMENTS
        left = [
            *((self.directory / n, names.parse_manifest(n)) for n in names.listed(self.directory)),
            *((segments / n, s and s.writer) for n, s in _parsed(segments)),
        ]
        for path, writer in left:
            # Not what another process may just have found, after this one looked.
            if writer is not None and writer not in writers and path.stat().st_mtime < begun:
                path.unlink(missing_ok=True)

    def _copy(self, name: str, is_manifest: bool) -> None:
        data = self.folder.read(name)
        self.downloads += 1
        if is_manifest:
            self._manifests[name] = self._segments_of(name, data)
            # Before the manifest, as in the remote folder.
            self._download(self._manifests[name])
        atomic.replace(self.directory / name, data)

    def _segments_of(self, name: str, data: bytes) -> list[str]:
        """The segments that a manifest names; if it is damaged, all there are of its writer."""
        try:
            content = manifest.loads(data, self.directory / name)
            return [str(about["file"]) for about in manifest.named_segments(content)]
        except ValueError:
            listed = (entry.name for entry in self.folder.listed(names.SEGMENTS))
            writer = names.parse_manifest(name)
            return [
                n for n in listed if (about := names.parse_segment(n)) and about.writer == writer
            ]

    def _download(self, segments: list[str]) -> None:
        missing = [name for name in segments if not self._is_here(name)]
        if missing:
            with ThreadPoolExecutor(min(DOWNLOADS, len(missing))) as pool:
                for _ in pool.map(self._fetch, missing):
                    self.downloads += 1

    def _is_here(self, name: str) -> bool:
        if name in self._checked and (self.directory / names.SEGMENTS / name).exists():
            return True
        try:
            is_whole = _fits(name, (self.directory / names.SEGMENTS / name).read_bytes())
        except FileNotFoundError:
            return False
        if is_whole:
            self._checked.add(name)
        return is_whole

    def _fetch(self, name: str) -> None:
        for _ in range(2):  # It may have been damaged on the way; the remote file does not change.
            try:
                data = self.folder.read(f"{names.SEGMENTS}/{name}")
            except FileNotFoundError:
                return
            if _fits(name, data):
                atomic.replace(self.directory / names.SEGMENTS / name, data)
                self._checked.add(name)
                return


def _parsed(folder: Path) -> list[tuple[str, SegmentName | None]]:
    return [(name, names.parse_segment(name)) for name in names.listed(folder)]


def _fits(name: str, data: bytes) -> bool:
    about: SegmentName | None = names.parse_segment(name)
    return about is not None and f"{google_crc32c.value(data):08x}" == about.checksum
