"""Polls runs for changes while pages are open."""

import sys
import threading
import time
import traceback
from collections.abc import Callable

from gradwatch.view.web.hub import Hub
from gradwatch.view.web.library import Library

_TICK = 1.0
_LIST_EVERY = 2.0
_CHECK_EVERY = 5.0
_MAX_SHARE = 1 / 20
"""The share of the time that polling may take."""
_PUBLISH_EVERY = 0.5


class ChangePoller:
    """A thread that checks the runs and publishes changes.

    Open runs are checked every second, the list every other second, and all other runs now and
    then. Only runs whose files have changed are read.
    """

    def __init__(self, library: Library, hub: Hub) -> None:
        self._library, self._hub = library, hub
        self._is_closed = threading.Event()
        self._wake = threading.Event()
        self._pending: set[str] = set()
        self._lock = threading.Lock()
        self._due = dict.fromkeys(("list", "all"), 0.0)
        self._thread = threading.Thread(target=self._work, name="gradwatch poller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Check now, even without listeners: the list was requested."""
        self._wake.set()

    def update_entry(self, id: str) -> None:
        """Update a run's entry in the list even if its files have not changed."""
        with self._lock:
            self._pending.add(id)
        self._wake.set()

    def close(self) -> None:
        self._is_closed.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(10)

    def _work(self) -> None:
        while not self._is_closed.is_set():
            is_woken = self._wake.wait(_TICK)
            self._wake.clear()
            if self._is_closed.is_set():
                return
            if is_woken or self._hub.has_listeners.is_set():
                try:
                    self._poll()
                except Exception:
                    # An internal error: printed, and the next poll may succeed.
                    traceback.print_exc(file=sys.stderr)

    def _poll(self) -> None:
        library = self._library
        open_ids = library.open_ids()
        changed = set(library.changed())
        with self._lock:
            pending, self._pending = self._pending, set()
        has_new_runs = list_changed = self._if_due("list", _LIST_EVERY, library.refresh)
        for id in (pending | set(open_ids)) & set(library.names):
            status = library.status(id)
            list_changed = library.update(id, force=id in pending) or list_changed
            if library.status(id) != status and id in open_ids:
                # A run whose process has ended changes without changing its files.
                changed.add(id)
        if changed or list_changed:
            self._hub.publish(runs=changed, list_too=list_changed)
        self._if_due("all", 0.0 if has_new_runs else _CHECK_EVERY, self._check_all)

    def _if_due(self, name: str, every: float, check: Callable[[], bool]) -> bool:
        """The result of a check, if it is due; else False."""
        begun = time.monotonic()
        if begun < self._due[name] and every:
            return False
        found = check()
        ended = time.monotonic()
        self._due[name] = ended + max(every, (ended - begun) / _MAX_SHARE)
        return found

    def _check_all(self) -> bool:
        """Update the entries of all runs that have changed, publishing now and then."""
        published, is_new = time.monotonic(), False
        for id in self._library.newest_first():
            if self._is_closed.is_set():
                break
            if id in self._library.names:
                is_new = self._library.update(id) or is_new
            if is_new and time.monotonic() - published > _PUBLISH_EVERY:
                self._hub.publish(runs=self._library.changed(), list_too=True)
                published, is_new = time.monotonic(), False
        if is_new:
            self._hub.publish(list_too=True)
        self._library.save()
        return is_new
