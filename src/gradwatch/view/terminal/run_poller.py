"""Reads and diagnoses a run on threads of its own, so that keys are answered at once."""

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

from gradwatch.core import Reading, select
from gradwatch.diagnosis import Finding, findings_of, known_findings
from gradwatch.read import Run
from gradwatch.view.data import ProgressReader, RunProgress

_PAUSE_FACTOR = 10
"""A pause is at least this many times as long as the work before it: the training that is
watched may need the processor."""


class RunPoller:
    """Reads a run again and again, every so many seconds; the caller closes it after `stop`.

    `version` grows with each change of `progress`, `findings` and `error`. The first two are
    None before they are known; `error` is empty if the last read succeeded. A `rank` of None
    is the first.
    """

    def __init__(self, run: Run, rank: int | None, every: float) -> None:
        self.progress: RunProgress | None = None
        self.findings: Sequence[Finding] | None = None
        self.error = ""
        self.version = 0
        self._run = run
        self._reader = ProgressReader(run, rank)
        self._every = every
        self._selector: select.Selector | None = None
        self._is_stopped = threading.Event()
        self._read_now = threading.Event()
        self._changed = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep_reading, name="gradwatch-top-read"),
            threading.Thread(target=self._keep_diagnosing, name="gradwatch-top-diagnose"),
        ]

    def start(self, selector: select.Selector | None) -> None:
        self._selector = selector
        for thread in self._threads:
            thread.start()

    def select(self, selector: select.Selector | None) -> None:
        """Read other sites, at once."""
        self._selector = selector
        self._read_now.set()

    def has_changed(self, version: int) -> bool:
        """Whether there is something newer than this version."""
        return self.version != version

    def stop(self) -> None:
        """End, after the read in progress."""
        for event in (self._is_stopped, self._read_now, self._changed):
            event.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _keep_reading(self) -> None:
        is_requested = True
        while not self._is_stopped.is_set():
            begun = time.monotonic()
            try:
                self._read(is_requested)
            except Exception as error:
                # The run may be moved or damaged at any moment: what is known stays.
                self.error = f"The run cannot be read: {error}"
                self.version += 1
            pause = max(self._every, _PAUSE_FACTOR * (time.monotonic() - begun))
            is_requested = self._read_now.wait(pause)
            self._read_now.clear()

    def _read(self, is_requested: bool) -> None:
        has_changed = self._run.refresh()
        is_known = self.progress is not None and self.progress.status == self._run.status
        if is_known and not (is_requested or has_changed):
            return
        self.progress = self._reader.read(self._selector)
        self.error = ""
        self.version += 1
        self._changed.set()

    def _keep_diagnosing(self) -> None:
        while not self._is_stopped.is_set():
            self._changed.wait()
            self._changed.clear()
            begun = time.monotonic()
            try:
                if self.findings is None:
                    # The findings of the training are there at once; the others take a moment.
                    self._set_findings(known_findings(self._run, max_rows=0).findings or None)
                run = cast(Run, _StoppableRun(self._run, self._is_stopped))
                self._set_findings(findings_of(run))
            except _StoppedError:
                return
            except Exception as error:
                self.error = f"The run cannot be diagnosed: {error}"
                self.version += 1
            self._is_stopped.wait(_PAUSE_FACTOR * (time.monotonic() - begun))

    def _set_findings(self, findings: Sequence[Finding] | None) -> None:
        if findings != self.findings:
            self.findings = findings
            self.version += 1


class _StoppedError(Exception):
    """The diagnosis is not needed any more."""


class _StoppableRun:
    """A run whose readings end with an exception once the poller is stopped."""

    def __init__(self, run: Run, is_stopped: threading.Event) -> None:
        self._run, self._is_stopped = run, is_stopped

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def readings(self) -> Iterator[Reading]:
        for reading in self._run.readings():
            if self._is_stopped.is_set():
                raise _StoppedError
            yield reading
