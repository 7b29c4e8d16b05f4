"""A background thread that takes work without ever making the giver wait."""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Worker(Generic[T]):
    """Handles items one by one, in order, on a daemon thread of its own.

    The thread is started by the first item. In a forked child, where that thread
    does not exist, the worker takes nothing and waits for nothing.

    Args:
        name: the thread's name.
        handle: called with each item.
        limit: how many items may wait; what comes when they do is dropped.
        size_of: the size of an item in bytes; without it, sizes do not matter.
        max_bytes: how much the items that wait or are being handled may hold. An item
            that comes when they hold more with it is dropped; but there is room for
            one of any size.
        on_fault: called, on the thread, with what `handle` or `at_end` raised;
            the worker goes on.
        at_end: called on the thread after the last item of a closed worker.

    Attributes:
        dropped: how many items were not taken, or were given up in `close`.
        unfinished: the items that `close` gave up. The first of them may be one
            that was being handled, and may still be finished.

    Example:

    >>> from gradwatch.sinks.worker import Worker
    >>> done = []
    >>> worker = Worker("example", done.append)
    >>> worker.submit("a"), worker.submit("b")
    (True, True)
    >>> worker.close(timeout=5.0)
    True
    >>> done
    ['a', 'b']
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[T], object],
        limit: int = 64,
        *,
        size_of: Callable[[T], int] | None = None,
        max_bytes: float = math.inf,
        on_fault: Callable[[BaseException], object] | None = None,
        at_end: Callable[[], object] | None = None,
    ) -> None:
        if limit < 1:
            raise ValueError(f"A worker needs room for an item. Received: limit={limit}")
        self.name = name
        self.limit = limit
        self.dropped = 0
        self.unfinished: tuple[T, ...] = ()
        self._handle = handle
        self._on_fault = on_fault
        self._at_end = at_end
        self._size_of = size_of
        self._max_bytes = max_bytes
        self._bytes = 0
        self._items: deque[tuple[T, int]] = deque()
        self._current: tuple[T, ...] = ()
        self._submitted = self._handled = 0
        self._sealed = False
        # Held for moments only, never while an item is handled. Reentrant (as a
        # Condition is), so that a signal handler may submit as well.
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._process: int | None = None

    def submit(self, item: T) -> bool:
        """Take an item, at once; False if there is no room or the worker is closed."""
        if self._is_forked():
            return False
        size = 0 if self._size_of is None else self._size_of(item)
        with self._change:
            is_full = len(self._items) >= self.limit
            is_full |= self._bytes > 0 and self._bytes + size > self._max_bytes
            if self._sealed or is_full or not self._started():
                self.dropped += 1
                return False
            self._bytes += size
            self._items.append((item, size))
            self._submitted += 1
            self._change.notify_all()
        return True

    @property
    def is_idle(self) -> bool:
        """Whether all that was submitted is handled; asked without waiting for anybody."""
        return self._handled >= self._submitted

    def drain(self, timeout: float) -> bool:
        """Wait until all that was submitted so far is handled; False if it took longer."""
        if self._is_forked():
            return True
        with self._change:
            goal = self._submitted
            return self._change.wait_for(lambda: self._handled >= goal, max(0.0, timeout))

    def seal(self) -> None:
        """Take no more items, and end the thread after the last one; returns at once."""
        if self._is_forked():
            return
        with self._change:
            self._sealed = True
            self._change.notify_all()

    def close(self, timeout: float) -> bool:
        """Handle what waits and stop; False if that took longer than `timeout` seconds.

        In that case the waiting items are given up, see `unfinished`, and the
        thread is left to end by itself if it ever gets on.
        """
        if self._is_forked():
            return True
        self.seal()
        if self._thread is None:
            return True
        if self._thread is threading.current_thread():
            return False
        self._thread.join(max(0.0, timeout))
        with self._change:
            if not self._thread.is_alive():
                return True
            self.unfinished = (*self._current, *(item for item, _ in self._items))
            self.dropped += len(self._items)
            self._items.clear()
        return False

    def _is_forked(self) -> bool:
        # Asked before the lock is touched: at the time of the fork another thread
        # may have held it, and in the child nobody would ever let go of it.
        return self._process is not None and self._process != os.getpid()

    def _started(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter is shutting down
                return False
            self._thread, self._process = thread, os.getpid()
        return True

    def _run(self) -> None:
        # Bare of calls of ours outside of a `try`: whatever fails, the thread goes on, since
        # all that waits depends on it.
        while True:
            with self._change:
                while not self._items and not self._sealed:
                    self._change.wait()
                if not self._items:
                    break
                item, size = self._items.popleft()
                self._current = (item,)
            # Also SystemExit and the like: they would end the thread, not the process.
            try:
                self._handle(item)
            except BaseException as fault:
                with suppress(Exception):
                    if self._on_fault is not None:
                        self._on_fault(fault)
            del item
            with self._change:
                self._bytes -= size
                self._current = ()
                self._handled += 1
                self._change.notify_all()
        try:
            if self._at_end is not None:
                self._at_end()
        except BaseException as fault:
            with suppress(Exception):
                if self._on_fault is not None:
                    self._on_fault(fault)
