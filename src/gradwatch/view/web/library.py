"""The runs that are served: their ids, those that are open, and what the list says."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path

from gradwatch.read import Run, Runs, Status
from gradwatch.view.data import Answer, Shown, broken_entry, entry, unknown_entry
from gradwatch.view.web.diagnoses import Diagnoses
from gradwatch.view.web.opened import FRESH_NOW, OpenedRun, signature

_OPEN = 12
_KEPT_OPEN = 6
"""So few runs are opened at once: whoever looks at one need not wait."""


class NoSuchRunError(LookupError):
    """There is no run of that id."""


class CannotOpenError(Exception):
    """A run that is there, and cannot be opened."""


class Library:
    """Runs by opaque ids: no part of a request ever becomes a part of a path.

    An id is a hash of the run's name below the directory, so that it stays the same when the
    server is started again, and a link to it can be kept.

    Args:
        found: a run, or runs; what `gradwatch.open` returns.
        given: the directory as the user gave it.
        diagnoses: what is wrong with runs.
        rank: of parallel trainings the process to show.
    """

    def __init__(
        self, found: Run | Runs, given: str, diagnoses: Diagnoses, rank: int | None = None
    ) -> None:
        self.given = given
        self._found, self._diagnoses, self._rank = found, diagnoses, rank
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._opened: OrderedDict[str, OpenedRun] = OrderedDict()
        self._entries: dict[str, tuple[Hashable, Answer]] = {}
        self._names: dict[str, str] = {}
        self._name_all()

    @property
    def names(self) -> dict[str, str]:
        """The runs' names by their ids, in the order of names."""
        return self._names

    def refresh(self) -> bool:
        """Look for runs; returns whether there are others than before."""
        if isinstance(self._found, Run) or not self._found.refresh():
            return False
        self._name_all()
        return True

    def shown(self, id: str) -> Shown:
        """A run, opened if it is not, and up to date.

        Raises:
            NoSuchRunError: there is none of that id.
            CannotOpenError: it cannot be opened.
        """
        opened = self._open(id)
        opened.bring_up_to_date()
        return opened.shown

    def key(self, id: str) -> Hashable:
        """Stands for a run's content as it was last looked at; None if it is not open."""
        with self._lock:
            opened = self._opened.get(id)
        return None if opened is None else opened.key

    def opened(self) -> list[str]:
        """The ids of the runs that are open."""
        with self._lock:
            return list(self._opened)

    def look(self, id: str) -> bool:
        """Look at an open run again; returns whether it has changed since this was last asked."""
        with self._lock:
            opened = self._opened.get(id)
        if opened is None:
            return False
        opened.bring_up_to_date(FRESH_NOW)
        return opened.take_change()

    def entries(self) -> list[Answer]:
        """What the list says of each run, as far as that is known."""
        known = self._entries
        return [
            known[id][1] if id in known else unknown_entry(id, name)
            for id, name in self._names.items()
        ]

    def status(self, id: str) -> str | None:
        """What the list says of how a run stands; None if that is not known."""
        known = self._entries.get(id)
        return None if known is None else known[1]["status"]

    def newest_first(self) -> list[str]:
        """All ids; those first whose files have changed last."""
        return sorted(self._names, key=lambda id: -_changed_at(self._place(id)))

    def enter(self, id: str, *, again: bool = False) -> bool:
        """Find out what the list says of a run, unless its files are as they were.

        Args:
            id: the run's.
            again: even if they are.

        Returns:
            Whether that is anything else than before.
        """
        known = self._entries.get(id)
        key = signature(self._place(id))
        is_settled = known is not None and known[1]["status"] != Status.LIVE
        if known is not None and known[0] == key and is_settled and not again:
            return False
        made = self._entry(id)
        self._entries[id] = key, made
        return known is None or known[1] != made

    def close(self) -> None:
        """Let go of all runs."""
        with self._lock:
            self._opened.clear()
        self._found.close()

    def _name_all(self) -> None:
        found = self._found
        several = [found.name] if isinstance(found, Run) else found.names
        named = {id_of(name): name for name in several}
        with self._lock:
            self._names = named
            for id in set(self._opened) - set(named):
                del self._opened[id]

    def _place(self, id: str) -> Path:
        if isinstance(self._found, Run):
            return self._found.path
        return self._found.path / self._names[id]

    def _fresh(self, id: str) -> Run:
        if isinstance(self._found, Run):
            return self._found
        return self._found.fresh(self._names[id])

    def _open(self, id: str) -> OpenedRun:
        with self._lock:
            if id not in self._names:
                raise NoSuchRunError("There is no such run.")
            if id in self._opened:
                self._opened.move_to_end(id)
                return self._opened[id]
        # One at a time: two threads that want the same run would both read all of it.
        with self._opening:
            with self._lock:
                if id in self._opened:
                    return self._opened[id]
            key = signature(self._place(id))
            try:
                run = self._fresh(id)
            except Exception as error:
                # Whatever is wrong with it, the server goes on.
                raise CannotOpenError(_words(error, self._place(id))) from error
            opened = OpenedRun(Shown(run, id, self._names[id], self._rank), key)
            with self._lock:
                self._opened[id] = opened
                # Those that are pushed out are not closed: a request may be at them, and
                # with the last one they are gone.
                while len(self._opened) > _OPEN:
                    self._opened.popitem(last=False)
        return opened

    def _entry(self, id: str) -> Answer:
        name = self._names[id]
        with self._lock:
            opened = self._opened.get(id)
        try:
            if opened is not None:
                opened.bring_up_to_date()
                run = opened.shown.run
                return entry(run, id, name, self._diagnoses.known(id, run))
            if len(self._names) <= _KEPT_OPEN:
                run = self._open(id).shown.run
                return entry(run, id, name, self._diagnoses.known(id, run))
            with self._fresh(id) as run:
                return entry(run, id, name, self._diagnoses.known(id, run))
        except CannotOpenError as error:
            return broken_entry(id, name, str(error))
        except Exception as error:
            # Whatever is wrong with one run, the others are to be seen.
            return broken_entry(id, name, _words(error, self._place(id)))


def id_of(name: str) -> str:
    """The id of a run of that name.

    >>> from gradwatch.view.web.library import id_of
    >>> id_of("mnist/lr0.1")
    'fd18200d22906714'
    """
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _changed_at(directory: Path) -> float:
    try:
        return directory.stat().st_mtime
    except OSError:
        return 0.0


def _words(error: Exception, place: Path) -> str:
    """What is wrong, without where it is on this machine."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    for path in (place.absolute(), place):
        said = said.replace(str(path), place.name)
    return f"{type(error).__name__}: {said}"
