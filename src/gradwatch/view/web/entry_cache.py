"""Entries of the list of runs, kept between servers: to open a thousand runs takes minutes."""

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Hashable
from pathlib import Path

from gradwatch.read import Status
from gradwatch.util.files import atomic
from gradwatch.view.data import Answer, to_json

FORMAT = 2
"""Changes with the content of entries."""
_SETTLED = (Status.FINISHED, Status.CRASHED)


class EntryCache:
    """The entries of runs below a directory, by the stamps of their files.

    Runs that are live, damaged or cannot be opened are looked at again each time. A cache that
    cannot be read or written is as good as none. `place` is a folder of the user's.
    """

    def __init__(self, directory: Path, version: str, place: Path | None = None) -> None:
        of = f"{FORMAT} {version} {directory.absolute()}".encode("utf-8", "surrogatepass")
        folder = _cache_folder() if place is None else place
        self._path = folder / f"runs-{hashlib.sha256(of).hexdigest()[:16]}.json"
        self._known: dict[str, tuple[str, Answer]] = {}
        self._has_changed = False
        with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
            content = json.loads(self._path.read_bytes())
            self._known = {id: (str(stamp), dict(entry)) for id, (stamp, entry) in content.items()}

    def get(self, id: str, signature: Hashable) -> Answer | None:
        """The entry of a run whose files have this signature; None if it is not known."""
        stamp, entry = self._known.get(id, ("", None))
        return entry if stamp == _stamp(signature) else None

    def put(self, id: str, signature: Hashable, entry: Answer) -> None:
        """Keep an entry, if the run has ended and is whole."""
        if entry["status"] in _SETTLED:
            self._known[id] = _stamp(signature), entry
            self._has_changed = True

    def save(self, ids: Collection[str]) -> None:
        """Write the entries of these runs for the next server."""
        if not self._has_changed:
            return
        self._has_changed = False
        known = {id: list(self._known[id]) for id in ids if id in self._known}
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            atomic.replace(self._path, to_json(known).encode("utf-8", "surrogatepass"))


def _cache_folder() -> Path:
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "gradwatch"


def _stamp(signature: Hashable) -> str:
    text = repr(signature).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:32]
