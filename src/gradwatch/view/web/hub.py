"""Publishes changes of runs to all open pages."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from gradwatch.view.data import Answer

MAX_LISTENERS = 64


class Hub:
    """Publishes changes from any thread to all listeners; pending changes are merged."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[_OpenPage] = []
        self._is_closed = False
        self.has_listeners = threading.Event()

    def publish(self, *, runs: Iterable[str] = (), list_too: bool = False) -> None:
        """Announce that these runs, or the list of runs, have changed."""
        changed = dict.fromkeys(runs)
        with self._lock:
            for listener in self._listeners:
                listener.runs |= changed
                listener.list_too = listener.list_too or list_too
                listener.wake()

    @property
    def is_full(self) -> bool:
        """Whether there are as many listeners as allowed."""
        with self._lock:
            return len(self._listeners) >= MAX_LISTENERS

    async def listen(self, heartbeat: float = 15.0) -> AsyncIterator[Answer | None]:
        """`Change`s of `types.ts`; None at once, and after each `heartbeat` without a change."""
        listener = _OpenPage(asyncio.get_running_loop())
        with self._lock:
            self._listeners.append(listener)
            self.has_listeners.set()
        try:
            yield None
            while not self._is_closed:
                try:
                    await asyncio.wait_for(listener.event.wait(), heartbeat)
                except TimeoutError:
                    yield None
                    continue
                listener.event.clear()
                with self._lock:
                    change = listener.take()
                if change is not None:
                    yield change
        finally:
            with self._lock:
                self._listeners.remove(listener)
                if not self._listeners:
                    self.has_listeners.clear()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self.has_listeners.set()
            for listener in self._listeners:
                listener.wake()


@dataclass(eq=False)
class _OpenPage:
    """An open page, and the changes that it has not received yet."""

    loop: asyncio.AbstractEventLoop
    event: asyncio.Event = field(default_factory=asyncio.Event)
    runs: dict[str, None] = field(default_factory=dict)
    list_too: bool = False

    def wake(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.event.set)

    def take(self) -> Answer | None:
        if not self.runs and not self.list_too:
            return None
        change = {"list": self.list_too, "runs": list(self.runs)}
        self.runs, self.list_too = {}, False
        return change
