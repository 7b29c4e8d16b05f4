"""What is wrong with runs, found out beside the server, which does not wait for it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from gradwatch.diagnosis import Finding, findings_file, in_order
from gradwatch.read import Run, Status

_REST = 15.0
"""Seconds at least between two diagnoses of a run that goes on."""
_LARGE, _AFTER = 1_000_000, 3.0
"""Of so many rows, a run is first shown for so many seconds."""
_PATIENCE = 10.0
"""A diagnosis of such a run may take one part in so many of the time."""


@dataclass
class _Known:
    """What has been found out of a run, and when."""

    findings: list[Finding] | None = None
    key: Hashable = None
    ended: float = float("-inf")
    took: float = 0.0
    is_waiting: bool = False


class Diagnoses:
    """Diagnoses runs one after the other, each in a process of its own.

    The rules read all of a run, which takes long for a large one, and would take the
    server's time. Until then, what was found while it was recorded is what is known.

    Args:
        changed: called with the id of a run of which more is known.
    """

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._queue: Queue[tuple[str, Path, Hashable, float] | None] = Queue()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def of(self, id: str, run: Run, key: Hashable) -> tuple[list[Finding], bool]:
        """What is known of a run's faults, and whether that is all.

        Args:
            id: the run's.
            run: itself.
            key: stands for its content.
        """
        with self._lock:
            known = self._known.setdefault(id, _Known())
            if known.key != key and not known.is_waiting and self._may_start(run, known):
                known.is_waiting = True
                not_before = time.monotonic() + _AFTER * (run.rows > _LARGE)
                self._queue.put((id, run.path, key, not_before))
                self._start()
            is_all = known.findings is not None and (known.key == key or run.status is Status.LIVE)
            found = known.findings or []
        rules = {(finding.group, finding.rule) for finding in found}
        more = [f for f in written(run) if (f.group, f.rule) not in rules]
        return in_order([*found, *more]), is_all

    def known(self, id: str, run: Run) -> list[Finding] | None:
        """What is known without looking: None if the run was never diagnosed at all."""
        with self._lock:
            known = self._known.get(id)
            if known is not None and known.findings is not None:
                return known.findings
        return written(run) if "diagnose" in run.facts else None

    def close(self) -> None:
        """Stop."""
        with self._lock:
            self._closed.set()
            process = self._process
        if process is not None:
            process.kill()
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(10)

    def _may_start(self, run: Run, known: _Known) -> bool:
        rest = max(_REST, _PATIENCE * known.took) if run.status is Status.LIVE else 0.0
        return time.monotonic() - known.ended >= rest

    def _start(self) -> None:
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(
                target=self._work, name="gradwatch diagnoses", daemon=True
            )
            self._thread.start()

    def _work(self) -> None:
        while (task := self._queue.get()) is not None and not self._closed.is_set():
            id, path, key, not_before = task
            self._closed.wait(max(0.0, not_before - time.monotonic()))
            begun = time.monotonic()
            found = self._ask(path)
            with self._lock:
                known = self._known[id]
                known.ended = time.monotonic()
                known.took, known.is_waiting = known.ended - begun, False
                # What cannot be diagnosed is not tried again until it has changed.
                known.key = key
                known.findings = found if found is not None else known.findings or []
            if not self._closed.is_set():
                self._changed(id)

    def _ask(self, path: Path) -> list[Finding] | None:
        command = [sys.executable, "-m", "gradwatch.view.web.diagnosing", str(path.absolute())]
        with self._lock:
            if self._closed.is_set():
                return None
            # In a session of its own: Ctrl-C ends the server, and the server ends it.
            process = self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        output, _ = process.communicate()
        with self._lock:
            self._process = None
        if process.returncode:
            return None
        return [Finding.from_json(line) for line in output.decode("utf-8").splitlines()]


def written(run: Run) -> list[Finding]:
    """What was found while the run was recorded."""
    try:
        return findings_file.read(run.path)
    except OSError:
        return []
