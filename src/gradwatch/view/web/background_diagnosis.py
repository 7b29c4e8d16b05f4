"""Diagnoses runs in processes of their own, so that the server does not wait."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from gradwatch.diagnosis import Finding, KnownFindings, findings_of, known_findings, worst_first
from gradwatch.read import Run, Status

_MIN_PAUSE = 15.0
"""Seconds at least between two diagnoses of a live run."""
_LARGE, _DELAY = 1_000_000, 3.0
"""A run of so many rows is diagnosed only after so many seconds, to be shown first."""
_LISTED = 20_000
"""A run of so many rows is diagnosed for the list, if that was not done while it was recorded."""
_PAUSE_RATIO = 10.0
"""Between two diagnoses, a live run pauses so many times as long as one took."""


@dataclass
class _State:
    """What is known of a run, and when its last diagnosis ended."""

    findings: list[Finding] | None = None
    signature: Hashable = None
    ended: float = float("-inf")
    took: float = 0.0
    is_queued: bool = False


class BackgroundDiagnosis:
    """Diagnoses runs one after the other, each in its own process.

    The rules read the whole run, which takes long for a large one. Until they are done, the
    findings that were recorded during training are shown. `on_change` gets the id of a run
    that has new findings. Without `diagnoses_live`, a live run has those only.
    """

    def __init__(self, on_change: Callable[[str], None], diagnoses_live: bool = True) -> None:
        self._on_change, self._diagnoses_live = on_change, diagnoses_live
        self._lock = threading.Lock()
        self._states: dict[str, _State] = {}
        self._queue: Queue[tuple[str, Path, Hashable, float] | None] = Queue()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def findings(self, id: str, run: Run, signature: Hashable) -> tuple[list[Finding], bool]:
        """The known findings, and whether they are complete; a new signature queues a diagnosis."""
        recorded = recorded_findings(run)
        if recorded.is_complete:
            return list(recorded.findings or ()), True
        if not self._diagnoses_live and run.status is Status.LIVE:
            return list(recorded.findings or ()), recorded.findings is not None
        with self._lock:
            state = self._states.setdefault(id, _State())
            if state.signature != signature and not state.is_queued and _is_due(run, state):
                state.is_queued = True
                not_before = time.monotonic() + _DELAY * (run.rows > _LARGE)
                self._queue.put((id, run.path, signature, not_before))
                self._start()
            is_current = state.signature == signature or run.status is Status.LIVE
            is_complete = state.findings is not None and is_current
            found = state.findings or []
        rules = {(finding.group, finding.rule) for finding in found}
        more = [f for f in recorded.findings or () if (f.group, f.rule) not in rules]
        return worst_first([*found, *more]), is_complete

    def known(self, id: str, run: Run) -> list[Finding] | None:
        """The findings for the list, without a diagnosis of a large run; None if unknown."""
        with self._lock:
            state = self._states.get(id)
            if state is not None and state.findings is not None:
                return state.findings
        # A live run changes too often to be read again each time.
        return known_findings(run, 0 if run.status is Status.LIVE else _LISTED).findings

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            process = self._process
        if process is not None:
            process.kill()
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(10)

    def _start(self) -> None:
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(
                target=self._work, name="gradwatch diagnosis", daemon=True
            )
            self._thread.start()

    def _work(self) -> None:
        while (task := self._queue.get()) is not None and not self._closed.is_set():
            id, path, signature, not_before = task
            self._closed.wait(max(0.0, not_before - time.monotonic()))
            begun = time.monotonic()
            found = self._diagnose(path)
            with self._lock:
                state = self._states[id]
                state.ended = time.monotonic()
                state.took, state.is_queued = state.ended - begun, False
                # A run that cannot be diagnosed is not tried again until it changes.
                state.signature = signature
                state.findings = found if found is not None else state.findings or []
            if not self._closed.is_set():
                self._on_change(id)

    def _diagnose(self, path: Path) -> list[Finding] | None:
        code = f"import sys; from {__name__} import print_findings; print_findings(sys.argv[1])"
        command = [sys.executable, "-c", code, str(path.absolute())]
        with self._lock:
            if self._closed.is_set():
                return None
            # In its own process group: Ctrl-C ends the server, and the server ends it.
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


def recorded_findings(run: Run) -> KnownFindings:
    """The findings that were recorded during training."""
    return known_findings(run, max_rows=0)


def _is_due(run: Run, state: _State) -> bool:
    is_live = run.status is Status.LIVE
    pause = max(_MIN_PAUSE, _PAUSE_RATIO * state.took) if is_live else 0.0
    return time.monotonic() - state.ended >= pause


def print_findings(path: str) -> None:
    """Diagnose a run and print its findings, one JSON object a line."""
    if hasattr(os, "nice"):
        os.nice(10)  # The viewer and a training come first.
    with Run(path) as run:
        for finding in findings_of(run):
            sys.stdout.write(f"{finding.to_json()}\n")
