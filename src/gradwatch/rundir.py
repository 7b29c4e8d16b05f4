"""The run's directory: who may write there, and what the run is."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: runs are then not kept apart.
    fcntl = None  # type: ignore[assignment]

_held: dict[Path, RunDirectory] = {}


class RunDirectory:
    """A directory that only one live monitor writes to.

    A second process, or thread, that asks for the same one gets its own beside
    it: `runs/a-2`. A second monitor on the same thread takes over from the first,
    whose training must have ended, perhaps by an exception, for it to be asked.

    Args:
        path: the directory wished for; it is made if need be.
        on_lost: called when another monitor takes the directory over.

    Raises:
        OSError: it cannot be made or written to.
    """

    def __init__(self, path: Path, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._thread = threading.get_ident()
        for n in itertools.count(1):
            self.path = path if n == 1 else path.with_name(f"{path.name}-{n}")
            self._key = self.path.absolute()
            if self._claim():
                return

    def _claim(self) -> bool:
        self.path.mkdir(parents=True, exist_ok=True)
        holder = _held.get(self._key)
        if holder is not None and holder._thread == self._thread:
            holder._on_lost()
            holder.release()
        self._lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if fcntl is not None:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            return False
        except OSError:
            pass  # A file system without locks: as on Windows.
        _held[self._key] = self
        return True

    def release(self) -> None:
        """Let others have it."""
        if _held.get(self._key) is self:
            del _held[self._key]
            os.close(self._lock)

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Add an entry to `run.json`, the list of all fits that this run consists of."""
        file = self.path / "run.json"
        entries: list[Any] = []
        with contextlib.suppress(OSError, ValueError):
            entries = list(json.loads(file.read_text("utf-8"))["fits"])
        text = json.dumps({"format": 1, "fits": [*entries, facts]}, indent=1)
        temporary = file.with_name(f".run.json.{os.getpid()}")
        with temporary.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
