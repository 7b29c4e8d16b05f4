"""What is yet to be measured of a step, on the host."""

import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

MOST_WAITING = 32_000_000
"""Bytes of the tensors that wait for that on another thread, at most; training waits for others."""


class HostWork:
    """Waits for the tensors of a step and measures them, once, when it is called; on any thread.

    `wait` waits for the tensors, which hold so many bytes, and `measure` is given what it returns.
    `spent` is told the seconds that a thread has measured.
    """

    # Without a lock: it may be dropped by the collector of garbage, in the midst of another call.
    _waiting: ClassVar[dict[int, int]] = {}

    def __init__(
        self, size: int, wait: Callable[[], Any], measure: Callable[[Any], dict[str, Any]]
    ) -> None:
        self.spent: Callable[[float], object] = lambda seconds: None
        self._measure = measure
        self._wait: Callable[[], Any] | None = wait
        self._found: dict[str, Any] = {}
        self._once = threading.Lock()
        self._waiting[id(self)] = size

    @staticmethod
    def has_room() -> bool:
        """Whether those that wait to be called may hold as much memory as they do."""
        return sum(list(HostWork._waiting.values())) <= MOST_WAITING

    def __call__(self) -> dict[str, Any]:
        with self._once:
            wait, self._wait = self._wait, None
            if wait is not None:
                try:
                    tensors = wait()
                    began = time.thread_time()
                    self._found = self._measure(tensors)
                    self.spent(time.thread_time() - began)
                finally:
                    self._no_longer_waits()
        return self._found

    def __del__(self) -> None:
        self._no_longer_waits()

    def _no_longer_waits(self) -> None:
        self._waiting.pop(id(self), None)
