"""A background thread that takes work without ever making the giver wait."""

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from gradwatch.util import exits

T = TypeVar("T")

BYTES_TOGETHER = 1 << 20


class Worker(Generic[T]):
    """Handles items in order, on a daemon thread of its own.

    The thread is started by the first item. In a forked child, where that thread
    does not exist, the worker takes nothing and waits for nothing.

    A thread that wakes up takes the interpreter and the processor's caches from the one that
    trains. With a `batch_interval`, it therefore wakes up once for all the items of that time.

    Args:
        handle: called with a list of items.
        limit: how many items may wait; an item that comes then is not taken.
        together: how many items `handle` gets at once at most, or 1 MB of them.
        batch_interval: how many seconds the thread sleeps after it last woke up, although items
            come; unless a quarter of the room is taken, or `flush_soon`, `drain` or `close` is
            called. An item that comes after that is handled at once.
        size_of: the size of an item in bytes; without it, sizes do not matter.
        max_bytes: how much the items that wait or are being handled may hold; an item beyond
            that is not taken. There is room for one item of any size.
        on_fault: called, on the thread, with an exception of `handle` or `at_end`;
            the worker goes on.
        at_end: called on the thread after the last item of a closed worker.

    Attributes:
        unfinished: the items that `close` gave up. The first of them may be those
            that were being handled, and may still be finished.
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[Sequence[T]], object],
        limit: int = 64,
        *,
        together: int = 1,
        batch_interval: float = 0.0,
        size_of: Callable[[T], int] = lambda item: 0,
        max_bytes: float = math.inf,
        on_fault: Callable[[BaseException], object] = lambda fault: None,
        at_end: Callable[[], object] = lambda: None,
    ) -> None:
        if limit < 1:
            raise ValueError(f"limit must be >= 1. Received: limit={limit}")
        self.name = name
        self.limit = limit
        self.current: tuple[T, ...] = ()
        self.unfinished: tuple[T, ...] = ()
        self._handle = handle
        self._together = together
        self._batch_interval = batch_interval
        self._size_of = size_of
        self._max_bytes = max_bytes
        self._on_fault = on_fault
        self._at_end = at_end
        self._items: deque[tuple[T, int]] = deque()
        self._bytes = 0
        self._submitted = self._handled = 0
        self._sealed = self._is_batching = self._is_urgent = False
        self._woke = 0.0
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
        size = self._size_of(item)
        with exits.critical, self._change:
            is_full = len(self._items) >= self.limit
            is_full |= self._bytes > 0 and self._bytes + size > self._max_bytes
            if self._sealed or is_full or not self._ensure_started():
                return False
            self._bytes += size
            self._items.append((item, size))
            self._submitted += 1
            self._is_urgent |= 4 * len(self._items) >= self.limit
            self._is_urgent |= 4 * self._bytes >= self._max_bytes
            if self._is_urgent or not self._is_batching:
                self._work.notify()
        return True

    def flush_soon(self) -> None:
        """Have the items that wait handled now; returns at once."""
        if self._items and not self._is_forked():
            with exits.critical, self._change:
                self._is_urgent = True
                self._work.notify()

    @property
    def has_waiting(self) -> bool:
        """Whether items wait behind those that are being handled."""
        return bool(self._items)

    @property
    def is_idle(self) -> bool:
        """Whether all that was submitted is handled; does not wait for a lock."""
        return self._handled >= self._submitted

    @property
    def submitted(self) -> int:
        """How many items it has taken so far."""
        return self._submitted

    def has_handled(self, count: int) -> bool:
        """Whether the first so many items are handled; does not wait for a lock."""
        return self._handled >= count

    def drain(self, timeout: float) -> bool:
        """Wait until all that was submitted so far is handled; False if it took longer."""
        if self._is_forked():
            return True
        with exits.critical, self._change:
            goal = self._submitted
            self._is_urgent = True
            self._work.notify()
            return self._change.wait_for(lambda: self._handled >= goal, max(0.0, timeout))

    def seal(self) -> None:
        """Take no more items, and end the thread after the last one; returns at once."""
        if self._is_forked():
            return
        with exits.critical, self._change:
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
        with exits.critical, self._change:
            if not self._thread.is_alive():
                return True
            self.unfinished = (*self.current, *(item for item, _ in self._items))
            self._items.clear()
        return False

    def _is_forked(self) -> bool:
        # Asked before the lock is touched: at the time of the fork another thread
        # may have held it, which does not exist in the child to release it.
        return self._process is not None and self._process != os.getpid()

    def _ensure_started(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter is shutting down
                return False
            self._thread, self._process = thread, os.getpid()
        return True

    def _run(self) -> None:
        # No call outside of a `try`: whatever fails, also SystemExit, the thread goes on, since
        # all that waits depends on it.
        self._woke = time.monotonic()
        is_open = True
        while is_open:
            try:
                is_open = self._handle_next()
            except BaseException as fault:
                with suppress(Exception):
                    self._on_fault(fault)
        try:
            self._at_end()
        except BaseException as fault:
            with suppress(Exception):
                self._on_fault(fault)

    def _handle_next(self) -> bool:
        """Wait for items and handle them; False when there will be none."""
        with self._change:
            if not self._items:
                self._wait()
            if not self._items:
                return False
            item, size = self._items.popleft()
            taken = [item]
            while (
                self._items
                and len(taken) < self._together
                and size + self._items[0][1] <= BYTES_TOGETHER
            ):
                item, more = self._items.popleft()
                taken.append(item)
                size += more
            self.current = tuple(taken)
        try:
            self._handle(taken)
        except BaseException as fault:
            with suppress(Exception):
                self._on_fault(fault)
        with self._change:
            self._bytes -= size
            self.current = ()
            self._handled += len(taken)
            self._change.notify_all()
        return True

    def _wait(self) -> None:
        """Wait until there are items, and the interval is over; or the worker is sealed."""
        self._is_urgent = False
        while not self._sealed:
            left = self._woke + self._batch_interval - time.monotonic()
            if self._items and (left <= 0 or self._is_urgent):
                break
            self._is_batching = left > 0
            self._work.wait(left if left > 0 else None)
        self._is_batching = False
        self._woke = time.monotonic()
