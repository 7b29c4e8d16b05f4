"""The served runs: their ids, which are open, and their entries in the list."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import nullcontext
from pathlib import Path

from gradwatch.read import Run, Runs, Status
from gradwatch.view.data import Answer, RunView, broken_entry, entry, unknown_entry
from gradwatch.view.web.background_diagnosis import BackgroundDiagnosis
from gradwatch.view.web.entry_cache import EntryCache
from gradwatch.view.web.live_run import LiveRun, signature_of

_MAX_OPEN = 12
_OPEN_ALL = 6
"""Up to so many runs are all kept open, so that showing one is quick."""


class NoSuchRunError(LookupError):
    """There is no run with that id."""


class CannotOpenError(Exception):
    """A run exists but cannot be opened."""


class Library:
    """Runs by opaque ids: no part of a request ever becomes part of a path.

    An id is a hash of the run's name below the directory. It stays the same when the server is
    restarted, so that links to a run keep working. `directory` is as the user gave it.
    """

    def __init__(
        self,
        found: Run | Runs,
        directory: str,
        diagnosis: BackgroundDiagnosis,
        rank: int | None = None,
        cache: EntryCache | None = None,
    ) -> None:
        self.directory = directory
        self._cache = cache
        self._found, self._diagnosis, self._rank = found, diagnosis, rank
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._open: OrderedDict[str, LiveRun] = OrderedDict()
        self._entries: dict[str, tuple[Hashable, Answer]] = {}
        self._names: dict[str, str] = {}
        self._update_names()

    @property
    def names(self) -> dict[str, str]:
        """The runs' names by their ids, sorted by name."""
        return self._names

    def refresh(self) -> bool:
        """Search the directory again; returns whether the set of runs has changed."""
        if isinstance(self._found, Run) or not self._found.refresh():
            return False
        if self._found.names == ["."]:
            # The directory was empty, and has become a run itself.
            self._found = self._found.fresh(".")
        self._update_names()
        return True

    def view(self, id: str) -> RunView:
        """A run, opened if necessary, and up to date; else NoSuchRunError or CannotOpenError."""
        live = self._opened(id)
        live.refresh()
        return live.view

    def signature(self, id: str) -> Hashable:
        """The signature of an open run's files at the last check; None if it is not open."""
        with self._lock:
            live = self._open.get(id)
        return None if live is None else live.signature

    def open_ids(self) -> list[str]:
        with self._lock:
            return list(self._open)

    def changed(self) -> list[str]:
        """Check all open runs; the ids of those that have changed since the last call."""
        with self._lock:
            open_runs = list(self._open.items())
        for _, live in open_runs:
            live.refresh(max_age=0.0)
        return [id for id, live in open_runs if live.take_change()]

    def entries(self) -> list[Answer]:
        """The list of runs, as far as they are known."""
        known = self._entries
        return [
            known[id][1] if id in known else unknown_entry(id, name)
            for id, name in self._names.items()
        ]

    def status(self, id: str) -> str | None:
        """The status of a run in the list; None if it is not known."""
        known = self._entries.get(id)
        return None if known is None else known[1]["status"]

    def newest_first(self) -> list[str]:
        """All ids, the most recently changed run first."""
        return sorted(self._names, key=lambda id: -_changed_at(self._path(id)))

    def update(self, id: str, *, force: bool = False) -> bool:
        """Update a run's entry if its files changed, or by `force`; True if the entry changed."""
        known = self._entries.get(id)
        signature = signature_of(self._path(id))
        is_settled = known is not None and known[1]["status"] != Status.LIVE
        if known is not None and known[0] == signature and is_settled and not force:
            return False
        cached = None if self._cache is None or known or force else self._cache.get(id, signature)
        made = self._entry(id) if cached is None else {**cached, "id": id, "name": self._names[id]}
        self._entries[id] = signature, made
        if self._cache is not None and cached is None:
            self._cache.put(id, signature, made)
        return known is None or known[1] != made

    def save(self) -> None:
        """Keep what is known of runs for the next server."""
        if self._cache is not None:
            self._cache.save(self._names)

    def close(self) -> None:
        self.save()
        with self._lock:
            self._open.clear()
        self._found.close()

    def _update_names(self) -> None:
        found = self._found
        names = [found.name] if isinstance(found, Run) else found.names
        by_id = {id_of(name): name for name in names}
        with self._lock:
            self._names = by_id
            for id in set(self._open) - set(by_id):
                del self._open[id]

    def _path(self, id: str) -> Path:
        if isinstance(self._found, Run):
            return self._found.path
        return self._found.path / self._names[id]

    def _fresh(self, id: str) -> Run:
        if isinstance(self._found, Run):
            return self._found
        return self._found.fresh(self._names[id])

    def _opened(self, id: str) -> LiveRun:
        with self._lock:
            if id not in self._names:
                raise NoSuchRunError(
                    "There is no such run in this folder: it was moved, renamed or deleted, or "
                    "the link belongs to another folder."
                )
            if id in self._open:
                self._open.move_to_end(id)
                return self._open[id]
        # One at a time: two threads that open the same run would both read all of it.
        with self._opening:
            with self._lock:
                if id in self._open:
                    return self._open[id]
            signature = signature_of(self._path(id))
            try:
                run = self._fresh(id)
            except Exception as error:
                raise CannotOpenError(_message(error, self._path(id))) from error
            live = LiveRun(RunView(run, id, self._names[id], self._rank), signature)
            with self._lock:
                self._open[id] = live
                # Dropped runs are not closed here: a request may still use one.
                while len(self._open) > _MAX_OPEN:
                    self._open.popitem(last=False)
        return live

    def _entry(self, id: str) -> Answer:
        name = self._names[id]
        try:
            is_open = id in self.open_ids() or len(self._names) <= _OPEN_ALL
            with nullcontext(self.view(id).run) if is_open else self._fresh(id) as run:
                return entry(run, id, name, self._diagnosis.known(id, run))
        except CannotOpenError as error:
            return broken_entry(id, name, str(error))
        except Exception as error:
            # A broken run must not hide the others.
            return broken_entry(id, name, _message(error, self._path(id)))


def id_of(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _changed_at(directory: Path) -> float:
    try:
        return directory.stat().st_mtime
    except OSError:
        return 0.0


def _message(error: Exception, path: Path) -> str:
    """The error without the paths of this machine."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    for each in (path.absolute(), path):
        text = text.replace(str(each), path.name)
    return f"{type(error).__name__}: {text}"
