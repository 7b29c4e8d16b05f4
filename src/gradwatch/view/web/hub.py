"""Telling those who listen that something has changed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable
from typing import Any

MOST = 64


class Hub:
    """Changes, from any thread to all listeners; those that wait are put together.

    Example:

    >>> import asyncio
    >>> from gradwatch.view.web.hub import Hub
    >>> async def first_change():
    ...     hub = Hub()
    ...     listener = hub.listen(beat=0.01)
    ...     beat = await anext(listener)
    ...     hub.tell(runs=["a"])
    ...     return beat, await anext(listener)
    >>> asyncio.run(first_change())
    (None, {'list': False, 'runs': ['a']})
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[asyncio.Event, tuple[asyncio.AbstractEventLoop, _Waiting]] = {}
        self._is_closed = False
        self.wanted = threading.Event()
        """Set for as long as somebody listens."""

    def tell(self, *, runs: Iterable[str] = (), list_too: bool = False) -> None:
        """These runs, or the list of runs, have changed."""
        told = list(runs)
        with self._lock:
            for event, (loop, waiting) in self._listeners.items():
                waiting.add(told, list_too)
                _wake(loop, event)

    @property
    def is_full(self) -> bool:
        """Whether no more may listen."""
        with self._lock:
            return len(self._listeners) >= MOST

    async def listen(self, beat: float = 15.0) -> AsyncIterator[dict[str, Any] | None]:
        """`Change`s of `types.ts`; None at once and then when nothing has happened for a while."""
        event, waiting = asyncio.Event(), _Waiting()
        with self._lock:
            self._listeners[event] = asyncio.get_running_loop(), waiting
            self.wanted.set()
        try:
            yield None
            while not self._is_closed:
                try:
                    await asyncio.wait_for(event.wait(), beat)
                except TimeoutError:
                    yield None
                    continue
                event.clear()
                with self._lock:
                    change = waiting.take()
                if change is not None:
                    yield change
        finally:
            with self._lock:
                del self._listeners[event]
                if not self._listeners:
                    self.wanted.clear()

    def close(self) -> None:
        """Let all listeners go."""
        with self._lock:
            self._is_closed = True
            self.wanted.set()
            for event, (loop, _) in self._listeners.items():
                _wake(loop, event)


class _Waiting:
    """What a listener has not been told yet."""

    def __init__(self) -> None:
        self._runs: dict[str, None] = {}
        self._list = False

    def add(self, runs: Iterable[str], list_too: bool) -> None:
        self._runs |= dict.fromkeys(runs)
        self._list = self._list or list_too

    def take(self) -> dict[str, Any] | None:
        if not self._runs and not self._list:
            return None
        change = {"list": self._list, "runs": list(self._runs)}
        self._runs, self._list = {}, False
        return change


def _wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(event.set)
