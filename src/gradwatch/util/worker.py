"""A background thread that takes work without ever making the giver wait."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")

TOGETHER = 32
"""Items that are handled together at most."""
BYTES_TOGETHER = 1 << 20


class Worker(Generic[T]):
    """Handles items in order, on a daemon thread of its own.

    The thread is started by the first item. In a forked child, where that thread
    does not exist, the worker takes nothing and waits for nothing.

    A thread that wakes up takes the interpreter and the processor's caches from the one that
    trains. With a `rest`, it therefore does so once for all the items that have come meanwhile.

    Args:
        name: the thread's name.
        handle: called with each item.
        handle_together: called with several that wait, at most 32 of them or 1 MB, instead of
            `handle` with each.
        rest: how many seconds the thread sleeps after it last woke up, although items come;
            unless a quarter of the room is taken, or they are asked for by `hurry`, `drain` or
            `close`. An item that comes after that is handled at once.
        at_rest: called on the thread each time that nothing waits any more.
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
        current: what is being handled.
        unfinished: the items that `close` gave up. The first of them may be one
            that was being handled, and may still be finished.

    Example:

    >>> from gradwatch.util.worker import Worker
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
        handle_together: Callable[[Sequence[T]], object] | None = None,
        rest: float = 0.0,
        at_rest: Callable[[], object] | None = None,
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
        self._handle_together = handle_together
        self._rest = rest
        self._at_rest = at_rest
        self._on_fault = on_fault
        self._at_end = at_end
        self._size_of = size_of
        self._max_bytes = max_bytes
        self._bytes = 0
        self._items: deque[tuple[T, int]] = deque()
        self.current: tuple[T, ...] = ()
        self._submitted = self._handled = 0
        self._sealed = self._is_resting = self._is_urgent = False
        # Held for moments only, never while an item is handled. Reentrant, so that a signal
        # handler may submit as well.
        lock = threading.RLock()
        self._change = threading.Condition(lock)
        # Only the thread waits for this one.
        self._work = threading.Condition(lock)
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
            self._is_urgent |= 4 * len(self._items) >= self.limit
            self._is_urgent |= 4 * self._bytes >= self._max_bytes
            if self._is_urgent or not self._is_resting:
                self._work.notify()
        return True

    def hurry(self) -> None:
        """Have what waits handled now, without a rest; returns at once."""
        if self._items and not self._is_forked():
            with self._change:
                self._is_urgent = True
                self._work.notify()

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
            self._is_urgent = True
            self._work.notify()
            return self._change.wait_for(lambda: self._handled >= goal, max(0.0, timeout))

    def seal(self) -> None:
        """Take no more items, and end the thread after the last one; returns at once."""
        if self._is_forked():
            return
        with self._change:
            self._sealed = True
            self._work.notify()

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
            self.unfinished = (*self.current, *(item for item, _ in self._items))
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
        woke = time.monotonic()
        most = 1 if self._handle_together is None else TOGETHER
        while True:
            with self._change:
                if not self._items:
                    self._is_urgent = False
                    while not self._sealed:
                        left = woke + self._rest - time.monotonic()
                        if self._items and (left <= 0 or self._is_urgent):
                            break
                        self._is_resting = left > 0
                        self._work.wait(left if left > 0 else None)
                    self._is_resting = False
                    woke = time.monotonic()
                if not self._items:
                    break
                item, size = self._items.popleft()
                taken = [item]
                while (
                    self._items and len(taken) < most and size + self._items[0][1] <= BYTES_TOGETHER
                ):
                    item, more = self._items.popleft()
                    taken.append(item)
                    size += more
                self.current = tuple(taken)
            # Also SystemExit and the like: they would end the thread, not the process.
            try:
                if self._handle_together is not None and len(taken) > 1:
                    self._handle_together(taken)
                else:
                    self._handle(item)
            except BaseException as fault:
                with suppress(Exception):
                    if self._on_fault is not None:
                        self._on_fault(fault)
            done = len(taken)
            del item, taken
            with self._change:
                self._bytes -= size
                self.current = ()
                self._handled += done
                self._change.notify_all()
            try:
                if self._at_rest is not None and not self._items:
                    self._at_rest()
            except BaseException as fault:
                with suppress(Exception):
                    if self._on_fault is not None:
                        self._on_fault(fault)
        try:
            if self._at_end is not None:
                self._at_end()
        except BaseException as fault:
            with suppress(Exception):
                if self._on_fault is not None:
                    self._on_fault(fault)
