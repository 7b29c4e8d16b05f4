"""What a session has open, closed by the session or, if nobody holds that any more, by itself."""

from __future__ import annotations

import _thread
import os
import threading
import time
import weakref
from contextlib import suppress

from gradwatch.record.directory import RunDirectory
from gradwatch.sinks import Pipeline
from gradwatch.store.remote import Uploader
from gradwatch.util import Reporter, exits
from gradwatch.watches.budget import Pacer

PATIENCE = 60.0
"""Seconds in which the sinks of a session that nobody holds may finish; nobody waits for them."""

_abandoned: set[OpenRun] = set()


class OpenRun:
    """The threads and files of a run that is being recorded.

    It must not refer to the `owner`, its session, and neither may its threads: an owner that is
    collected was dropped by the user, after an exception in training for example. The run is then
    closed, on a thread of its own.

    `directory` is None if nothing can be written, `uploader` if the run stays on this machine.
    """

    def __init__(
        self,
        owner: object,
        pipeline: Pipeline,
        directory: RunDirectory | None,
        uploader: Uploader | None,
        pacer: Pacer,
        reporter: Reporter,
    ) -> None:
        self._pipeline, self._directory, self._uploader = pipeline, directory, uploader
        self._pacer, self._reporter = pacer, reporter
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_finished = self._is_released = False
        self._when_dropped = weakref.finalize(owner, self._abandon)
        self._when_dropped.atexit = False

    def finish(self) -> None:
        """Write out all that was measured, within 2 seconds."""
        if not self._is_finished:
            self._is_finished = True
            with self._reporter.guard("closing the run", "perhaps the last steps"):
                self._pipeline.close()

    def release(self) -> None:
        """Describe the end, and release the files."""
        self._when_dropped.detach()
        if self._is_released:
            return
        self._is_released = True
        if self._directory is not None:
            with self._reporter.guard(
                "closing the run", "the cost of measuring, and the run's end, in run.json"
            ):
                self._directory.amend("cost", self._pacer.cost().facts())
                self._directory.amend("ended", now())
            self._directory.release()
        if self._uploader is not None:
            with exits.critical:
                self._uploader.close()

    def tell_sinks(self) -> None:
        """Tell them that the run is complete; after `release`."""
        with self._reporter.guard("handing over the run", "nothing"):
            self._pipeline.after_run()

    def _abandon(self) -> None:
        """The owner is gone.

        This is called on any thread, also on one of the sinks, and whatever locks that holds:
        wherever Python collects garbage. So it takes none itself.
        """
        if self._process == os.getpid():
            _abandoned.add(self)
            # Not at the end of the process, where it closes what is left.
            with suppress(RuntimeError):
                _thread.start_new_thread(_start, (self,))

    def close_abandoned(self, deadline: float) -> None:
        """Close it after its owner; one thread does, and others wait for that until a deadline."""
        left = deadline - time.monotonic()
        if not self._lock.acquire(timeout=max(0.0, left)):
            return
        try:
            if not self._is_finished:
                self._is_finished = True
                with suppress(Exception):
                    self._pipeline.close(left)
            with suppress(Exception):
                self.release()
            _abandoned.discard(self)
        finally:
            self._lock.release()


def _start(run: OpenRun) -> None:
    # A thread that Python knows by name; it may wait for Python's own lock, as this one may, too.
    threading.Thread(
        target=lambda: run.close_abandoned(time.monotonic() + PATIENCE),
        name="gradwatch-close",
        daemon=True,
    ).start()


def close_abandoned(deadline: float) -> None:
    """Close all runs that nobody holds, by a `time.monotonic` deadline."""
    for run in list(_abandoned):
        run.close_abandoned(deadline)


# Before `run.json` is written and what is sealed is uploaded.
exits.register(0, close_abandoned)


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
