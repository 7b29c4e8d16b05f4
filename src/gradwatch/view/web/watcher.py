"""Looks for what is new, for as long as somebody wants to know."""

from __future__ import annotations

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
_PART = 20.0
"""Looking may take one part in so many of the time."""
_TELL_EVERY = 0.5


class Watcher:
    """A thread that looks at the runs and tells the hub what has changed.

    Runs that are open are looked at every second, the list every other second, and all other
    runs now and then: only those whose files have changed are read.

    Args:
        library: the runs.
        hub: whom to tell.
    """

    def __init__(self, library: Library, hub: Hub) -> None:
        self._library, self._hub = library, hub
        self._is_closed = threading.Event()
        self._wake = threading.Event()
        self._pending: set[str] = set()
        self._lock = threading.Lock()
        self._due = dict.fromkeys(("list", "all"), 0.0)
        self._thread = threading.Thread(target=self._work, name="gradwatch watcher", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Somebody has asked for the list: look now, even if nobody listens."""
        self._wake.set()

    def enter_again(self, id: str) -> None:
        """More is known of a run than its files say."""
        with self._lock:
            self._pending.add(id)
        self._wake.set()

    def close(self) -> None:
        """Stop."""
        self._is_closed.set()
        self._wake.set()
        self._thread.join(10)

    def _work(self) -> None:
        while not self._is_closed.is_set():
            was_asked = self._wake.wait(_TICK)
            self._wake.clear()
            if self._is_closed.is_set():
                return
            if was_asked or self._hub.wanted.is_set():
                try:
                    self._look()
                except Exception:
                    # A fault of ours: said, and the next look may do better.
                    traceback.print_exc(file=sys.stderr)

    def _look(self) -> None:
        library = self._library
        opened = library.opened()
        changed = {id for id in opened if library.look(id)}
        with self._lock:
            again, self._pending = self._pending, set()
        are_others = is_new = self._is_due("list", _LIST_EVERY, library.refresh)
        for id in (again | set(opened)) & set(library.names):
            status = library.status(id)
            is_new = library.enter(id, again=id in again) or is_new
            if library.status(id) != status and id in opened:
                # A process that is gone changes a run without changing its files.
                changed.add(id)
        if changed or is_new:
            self._hub.tell(runs=changed, list_too=is_new)
        self._is_due("all", 0.0 if are_others else _CHECK_EVERY, self._check_all)

    def _is_due(self, name: str, every: float, look: Callable[[], bool]) -> bool:
        """Look, if it is time to; returns whether that has found anything."""
        begun = time.monotonic()
        if begun < self._due[name] and every:
            return False
        found = look()
        ended = time.monotonic()
        self._due[name] = ended + max(every, _PART * (ended - begun))
        return found

    def _check_all(self) -> bool:
        """Enter all runs that have changed; the list is told of it bit by bit."""
        told, is_new = time.monotonic(), False
        for id in self._library.newest_first():
            if self._is_closed.is_set():
                break
            if id in self._library.names:
                is_new = self._library.enter(id) or is_new
            if is_new and time.monotonic() - told > _TELL_EVERY:
                self._hub.tell(list_too=True)
                told, is_new = time.monotonic(), False
                changed = [id for id in self._library.opened() if self._library.look(id)]
                if changed:
                    self._hub.tell(runs=changed)
        if is_new:
            self._hub.tell(list_too=True)
        return is_new
