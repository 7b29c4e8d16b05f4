"""Reading a run beside the screen, so that keys are answered at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gradwatch.core import Reading, select
from gradwatch.diagnosis import Finding, findings_file, findings_of
from gradwatch.read import Run
from gradwatch.view.glance.standing import Standing, Watcher

_PAUSES = 10
"""Looking, and diagnosing, are paused for so many times as long as they took: the
training that they look at may need the processor."""


class Looking:
    """Looks at a run again and again, on threads of its own.

    Args:
        run: closed by whoever has opened it, after `stop`.
        rank: the process of a parallel training; None for the first.
        every: seconds between two looks.
        tell: called, on another thread, whenever there is something new.

    Attributes:
        standing: how the run stands; None before the first look.
        findings: what is wrong with it; None before that is known.
        fault: what the last look failed of, in words; empty if it did not.
    """

    def __init__(self, run: Run, rank: int | None, every: float, tell: Callable[[], None]) -> None:
        self.standing: Standing | None = None
        self.findings: Sequence[Finding] | None = None
        self.fault = ""
        self._run = run
        self._watcher = Watcher(run, rank)
        self._every = every
        self._tell = tell
        self._selector: select.Selector | None = None
        self._is_stopped = threading.Event()
        self._asked = threading.Event()
        self._changed = threading.Event()
        self._threads = [
            threading.Thread(target=self._look_on, name="gradwatch-top-looking"),
            threading.Thread(target=self._diagnose_on, name="gradwatch-top-diagnosing"),
        ]

    def start(self, selector: select.Selector | None) -> None:
        """Begin."""
        self._selector = selector
        for thread in self._threads:
            thread.start()

    def show(self, selector: select.Selector | None) -> None:
        """Look at once, at other sites."""
        self._selector = selector
        self._asked.set()

    def stop(self) -> None:
        """End, once what is being read has been read."""
        self._is_stopped.set()
        self._asked.set()
        self._changed.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _look_on(self) -> None:
        has_asked = True
        while not self._is_stopped.is_set():
            begun = time.monotonic()
            try:
                self._look(has_asked)
            except Exception as fault:
                # The run may be moved or damaged at any moment: what was known stays.
                self.fault = f"The run cannot be read: {fault}"
                self._tell()
            pause = max(self._every, _PAUSES * (time.monotonic() - begun))
            has_asked = self._asked.wait(pause)
            self._asked.clear()

    def _look(self, has_asked: bool) -> None:
        has_changed = self._run.refresh()
        known = self.standing
        if not (has_asked or has_changed or known is None or known.status != self._run.status):
            return
        self.standing = self._watcher.look(self._selector)
        self.fault = ""
        self._changed.set()
        self._tell()

    def _diagnose_on(self) -> None:
        while not self._is_stopped.is_set():
            self._changed.wait()
            self._changed.clear()
            if self._is_stopped.is_set():
                return
            begun = time.monotonic()
            try:
                if self.findings is None:
                    # What was found while training is there at once; the rest takes a moment.
                    self._found(findings_file.read(self._run.path) or None)
                self._found(findings_of(_UntilStopped(self._run, self._is_stopped)))
            except _StoppedError:
                return
            except Exception as fault:
                self.fault = f"The run cannot be diagnosed: {fault}"
                self._tell()
            self._is_stopped.wait(_PAUSES * (time.monotonic() - begun))

    def _found(self, findings: Sequence[Finding] | None) -> None:
        if findings != self.findings:
            self.findings = findings
            self._tell()


class _StoppedError(Exception):
    """Nobody waits for the diagnosis any more."""


class _UntilStopped:
    """A run that is diagnosed, until that is stopped."""

    def __init__(self, run: Run, is_stopped: threading.Event) -> None:
        self._run = run
        self._is_stopped = is_stopped

    @property
    def facts(self) -> Mapping[str, Any]:
        return self._run.facts

    @property
    def path(self) -> Path:
        return self._run.path

    def steps(self) -> Iterable[int]:
        return map(int, self._run.steps())

    def at(self, step: int) -> Sequence[Reading]:
        return self._run.at(step)

    def readings(self) -> Iterator[Reading]:
        for reading in self._run.readings():
            if self._is_stopped.is_set():
                raise _StoppedError
            yield reading
