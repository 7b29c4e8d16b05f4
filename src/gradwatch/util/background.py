"""Calls functions a little later, one after the other, on one thread."""

import os
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress

from gradwatch.util import exits
from gradwatch.util.reporter import logger

PAUSE_AFTER_FAULT = 0.05
"""Seconds; an internal error that repeats must not keep a processor busy."""


class Background:
    """Calls functions later, in the order of their times, on a daemon thread.

    An exception of a call is logged, once for each type; the thread goes on.
    A forked child starts empty: it does not do its parent's work.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._begin()

    def _begin(self) -> None:
        self._waiting: dict[Hashable, tuple[float, Callable[[], object]]] = {}
        self._is_busy = False
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._logged: set[type[BaseException]] = set()

    def later(self, key: Hashable, delay: float, call: Callable[[], object]) -> None:
        """Have it called in `delay` seconds, in place of a call that waits under the same key."""
        if self._process != os.getpid():
            # Without touching the old lock: a thread that held it during the fork does not
            # exist here to release it.
            self._begin()
        with exits.critical, self._change:
            self._waiting[key] = (time.monotonic() + delay, call)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                try:
                    thread.start()
                    self._thread = thread
                except RuntimeError:  # no more threads, or the interpreter is shutting down
                    pass
            self._change.notify_all()

    def finish(self, deadline: float) -> bool:
        """Call all that waits now; whether that was done by the deadline of `time.monotonic`."""
        if self._process != os.getpid() or self._thread is None:
            return True
        with exits.critical, self._change:
            now = time.monotonic()
            # Only the calls that wait now: one that asks to be repeated later would be repeated
            # without end.
            in_order = sorted(self._waiting.items(), key=lambda item: item[1][0])
            self._waiting = {key: (now, call) for key, (_, call) in in_order}
            self._change.notify_all()
            return self._change.wait_for(
                lambda: not self._is_busy and self._pause() != 0.0,
                max(0.0, deadline - time.monotonic()),
            )

    def stop(self) -> None:
        """Drop what waits."""
        if self._process == os.getpid():
            with exits.critical, self._change:
                self._waiting.clear()

    def _run(self) -> None:
        while True:
            # The thread goes on whatever fails: all that waits depends on it.
            try:
                self._call_next()
            except BaseException as fault:
                with suppress(Exception):
                    self._log(fault)
                time.sleep(PAUSE_AFTER_FAULT)
            with self._change:
                self._is_busy = False
                self._change.notify_all()

    def _call_next(self) -> None:
        with self._change:
            while (call := self._next()) is None:
                self._change.wait(self._pause())
            self._is_busy = True
        try:
            call()
        except BaseException as fault:
            self._log(fault)

    def _next(self) -> Callable[[], object] | None:
        if self._waiting:
            key = min(self._waiting, key=lambda key: self._waiting[key][0])
            if self._waiting[key][0] <= time.monotonic():
                return self._waiting.pop(key)[1]
        return None

    def _pause(self) -> float | None:
        """How long until the next call is due; None if there is none."""
        if not self._waiting:
            return None
        return max(0.0, min(when for when, _ in self._waiting.values()) - time.monotonic())

    def _log(self, fault: BaseException) -> None:
        if type(fault) not in self._logged:
            self._logged.add(type(fault))
            logger.warning("%s: %s: %s", self.name, type(fault).__name__, fault)
