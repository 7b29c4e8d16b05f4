"""A folder at a URL, through fsspec."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gradwatch.store.remote.address import Remote

_MARKS = ("ETag", "etag", "LastModified", "last_modified", "updated", "mtime", "created")


class RemoteError(OSError):
    """Something remote could not be reached, read or written."""


@dataclass(frozen=True)
class RemoteFile:
    """A file in a folder; `mark` changes with the content, and is empty if not known."""

    name: str
    size: int
    mark: str


class Folder:
    """A remote folder of which only whole files are read and written.

    Whatever a file system raises, and their kinds are many, is a `RemoteError` here,
    without credentials; a file that is not there is a `FileNotFoundError`.

    Making one reads nothing. It raises `ImportError` if fsspec, or what that needs for this
    protocol, is not installed, and `ValueError` if there is no such protocol.
    """

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self._files, self.root = _file_system(remote)
        self.shown = remote.shown

    def numbered(self, number: int) -> Folder:
        """The folder of the same name with a number: `runs/a-2`."""
        return self._with_suffix(f"-{number}")

    def within(self, name: str) -> Folder:
        return self._with_suffix(f"/{name}")

    def _with_suffix(self, suffix: str) -> Folder:
        other = copy.copy(self)
        other.root, other.shown = self.root + suffix, self.shown + suffix
        return other

    def listed(self, folder: str = "") -> list[RemoteFile]:
        """The files in it, or in a folder of it, by name; none if there is no such folder."""
        place = f"{self.root}/{folder}".rstrip("/")
        with self._errors_named(f"list {folder or 'it'}"):
            self._files.invalidate_cache()
            try:
                found = self._files.ls(place, detail=True)
            except FileNotFoundError:
                return []
        entries = [_entry(about, place) for about in found if about["type"] == "file"]
        return sorted((e for e in entries if e is not None), key=lambda entry: entry.name)

    def walk(self) -> list[str]:
        """The paths of all files in it, at any depth."""
        with self._errors_named("list it"):
            self._files.invalidate_cache()
            start = len(self.root) + 1
            return sorted(path[start:] for path in self._files.find(self.root))

    def read(self, name: str) -> bytes:
        with self._errors_named(f"read {name}"):
            return bytes(self._files.cat_file(f"{self.root}/{name}"))

    def write(self, name: str, data: bytes) -> None:
        """Put a file there, or another in its place.

        If this fails on a file system that is no object store, a part of the file may be there.
        """
        with self._errors_named(f"write {name}"):
            path = f"{self.root}/{name}"
            # Object stores have no folders, and may not permit to ask for them.
            if _protocol(self._files) not in _OBJECT_STORES:
                self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(path, data)

    def url(self, name: str) -> str:
        """The whole URL of a file in it, without credentials."""
        return str(self._files.unstrip_protocol(f"{self.root}/{name}"))

    def delete(self, name: str) -> None:
        """Delete a file; one that is not there is no mistake."""
        with self._errors_named(f"delete {name}"):
            try:
                self._files.rm_file(f"{self.root}/{name}")
            except FileNotFoundError:
                return

    @contextmanager
    def _errors_named(self, deed: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            words = f"Cannot {deed} at {self.shown}: there is no such file or bucket."
            raise FileNotFoundError(words) from error
        except Exception as error:
            words = self.remote.redacted(f"{type(error).__name__}: {error}")
            raise RemoteError(f"Cannot {deed} at {self.shown}. {words}") from None


_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "memory"})


def _protocol(files: Any) -> str:
    protocol = files.protocol
    return str(protocol if isinstance(protocol, str) else protocol[0])


def _entry(about: dict[str, Any], place: str) -> RemoteFile | None:
    name = str(about["name"]).rstrip("/").rpartition("/")[2]
    mark = next((str(about[m]) for m in _MARKS if about.get(m) is not None), "")
    # Some object stores list the folder itself, as an empty object.
    is_itself = str(about["name"]).rstrip("/") == place.rstrip("/")
    return None if is_itself else RemoteFile(name, int(about.get("size") or 0), mark)


def _file_system(remote: Remote) -> tuple[Any, str]:
    try:
        import fsspec.core
    except ImportError:
        raise ImportError(
            f"Runs at a URL need fsspec: pip install 'gradwatch[remote]'. Received: {remote.shown}"
        ) from None
    try:
        files, root = fsspec.core.url_to_fs(remote.url, **remote.options)
    except ImportError as error:
        raise ImportError(
            f"fsspec needs another package for {remote.shown}: {error}. For s3: "
            "pip install 'gradwatch[remote]'."
        ) from None
    except Exception as error:
        words = remote.redacted(f"{type(error).__name__}: {error}")
        raise ValueError(f"fsspec cannot open {remote.shown}. {words}") from None
    return files, str(root).rstrip("/")
